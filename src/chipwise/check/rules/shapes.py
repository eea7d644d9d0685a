"""Rules about shapes: static ones, and the sizes of dimensions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import onnx_ir as ir

from chipwise.check.check_input import CheckInput, label
from chipwise.check.rule import Hit, rule
from chipwise.check.symbolic import dim_symbols, input_dim_size, static_shape
from chipwise.target.quantity import Quantity


@rule
def static_shapes(given: CheckInput) -> Iterator[Hit]:
    """An input has a dimension without a size.

    Why: The toolchain plans memory and tiles when it compiles, so every size must be known then.

    Limit: `static_shapes` of the target, from its toolchain.

    Remedy: Give the size with --dim NAME=SIZE; for a length take the one that covers 95 % of your queries.
    """
    if given.graph is None or given.limits.static_shapes is None or not given.limits.static_shapes.value:
        return
    places: defaultdict[str, list[str]] = defaultdict(list)
    for value in _fed(given.graph):
        if value.shape is None:
            yield Hit("error", str(value.name), "unknown rank", "a static shape", "not even its rank is known")
            continue
        for axis, dim in enumerate(value.shape):
            if input_dim_size(value, axis, given.dims) is None:
                names = sorted(dim_symbols(dim) - set(given.dims)) or [f"{value.name}:{axis}"]
                for name in names:
                    places[name].append(f"{value.name}[{axis}]")
    for name, where in places.items():
        yield Hit("error", ", ".join(where), f"symbolic dimension {name}", "a number", name)


@rule
def zero_sizes(given: CheckInput) -> Iterator[Hit]:
    """An input holds no values at all.

    Why: A compiled graph cannot be fed with it (rknn-toolkit2 builds, and its runtime ends with "Size of inputs[1] is
    invalid!"); exports of decoders have such an input for a past of no tokens.

    Limit: At least one value.

    Remedy: Export the model without that input, or with a past of the length it shall have.
    """
    if given.graph is None or not given.has_accelerator:
        return
    for value in _fed(given.graph):
        shape = static_shape(value, given.dims)
        if shape is not None and 0 in shape:
            yield Hit("error", str(value.name), f"{list(shape)}", "no size of 0")


@rule
def dim_limits(given: CheckInput) -> Iterator[Hit]:
    """A tensor's rank or a dimension is outside what the accelerator takes.

    Why: Registers and descriptors hold sizes in few bits; a layer beyond them is refused or falls to the CPU.

    Limit: `rank`, `batch_max`, `dim_min`, `dim_max` of the target, from the vendor's documents.

    Remedy: Split or reshape the tensor.
    """
    limits = given.limits
    if not any((limits.rank, limits.batch_max, limits.dim_min, limits.dim_max)):
        return
    worst: dict[str, tuple[int, Hit]] = {}
    for node in given.nodes:
        for value in node.outputs:
            shape = static_shape(value, given.dims)
            for excess, measured, limit in _breaches(given, shape or ()):
                hit = Hit("warning", label(node), f"{measured} of {list(shape or ())}", limit)
                if limit not in worst or excess > worst[limit][0]:
                    worst[limit] = (excess, hit)
    yield from (hit for _, hit in worst.values())


def _breaches(given: CheckInput, shape: tuple[int, ...]) -> Iterator[tuple[int, str, str]]:
    """By how much, what, and the limit, for every limit that a shape breaks."""
    limits = given.limits
    if not shape:
        return
    if limits.rank is not None and len(shape) != int(limits.rank):
        yield abs(len(shape) - int(limits.rank)), f"rank {len(shape)}", f"rank {int(limits.rank)}"
    if limits.batch_max is not None and shape[0] > int(limits.batch_max):
        yield shape[0], f"first dimension {shape[0]}", f"at most {int(limits.batch_max)}"
    for size in shape[1:]:
        if limits.dim_max is not None and size > int(limits.dim_max):
            yield size, f"dimension {size}", f"at most {int(limits.dim_max)}"
        if limits.dim_min is not None and size < int(limits.dim_min):
            yield -size, f"dimension {size}", f"at least {int(limits.dim_min)}"


@rule
def softmax_area(given: CheckInput) -> Iterator[Hit]:
    """A Softmax is larger than the accelerator takes in one piece.

    Why: The operator runs on the CPU instead, and the tensor crosses over and back.

    Limit: `softmax_area_max` of the target: the product of width and height stays below it.

    Remedy: Use a shorter sequence, or split the heads.
    """
    limit: Quantity | None = given.limits.softmax_area_max
    if limit is None:
        return
    for node in given.nodes:
        shape = static_shape(node.inputs[0], given.dims) if node.op_type == "Softmax" and node.inputs else None
        if shape is not None and len(shape) >= 2 and shape[-1] * shape[-2] >= int(limit):
            yield Hit("warning", label(node), f"{shape[-2]} x {shape[-1]}", f"a product below {limit.value:g}")


def _fed(model: ir.Model) -> list[ir.Value]:
    return [value for value in model.graph.inputs if value.name not in model.graph.initializers]
