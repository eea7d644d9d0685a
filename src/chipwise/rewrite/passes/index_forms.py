"""Index forms: indices written so that toolchains with 32-bit or unsigned indices read them right."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from chipwise.check.constants import constant_array
from chipwise.rewrite.edit import Patch, all_nodes, attribute_int, remove_unused
from chipwise.rewrite.pass_ import EXACT, PassResult, RewriteContext, Tolerance

_INT32_MAX = 2**31 - 1


@dataclass(frozen=True)
class IndexForms:
    """Write constant indices without negative numbers and without "to the end" as a huge number.

    1. Gather with a negative constant index counts from the front, where the size is known.
    2. Slice with an end beyond the size (2^63-1, 2^31-1) ends at the size; a negative start or end counts from the
       front. Only for steps above 0.
    3. Slice along an unknown size with an end beyond 32 bits ends at 2^31-1.
    4. Indices that are computed, or already plain, stay.
    """

    name: str = "index_forms"
    requires: tuple[str, ...] = ("fix_shapes", "constant_folding")
    optional: bool = True
    tolerance: Tolerance = EXACT

    def apply(self, model: ir.Model, context: RewriteContext) -> PassResult:
        """Rewrite constant indices."""
        gathers = slices = 0
        for node in all_nodes(model):
            if node.domain == "" and node.op_type == "Gather":
                gathers += _gather(node)
            elif node.domain == "" and node.op_type == "Slice":
                slices += _slice(node)
        if gathers or slices:
            remove_unused(model)
        notes = [f"{count} {op} indices made plain" for op, count in (("Gather", gathers), ("Slice", slices)) if count]
        return PassResult(model, bool(notes), tuple(notes))


def _size(node: ir.Node, axis: int) -> int | None:
    value = node.inputs[0]
    if value is None or value.shape is None or not -len(value.shape) <= axis < len(value.shape):
        return None
    size = value.shape[axis]
    return size if isinstance(size, int) else None


def _gather(node: ir.Node) -> bool:
    indices = constant_array(node.inputs[1])
    size = _size(node, attribute_int(node, "axis", 0))
    if indices is None or size is None or not (indices < 0).any():
        return False
    _put(node, 1, np.where(indices < 0, indices + size, indices).astype(indices.dtype))
    return True


def _slice(node: ir.Node) -> bool:
    if len(node.inputs) < 3:  # opset 9 and older keep them in attributes
        return False
    starts, ends = constant_array(node.inputs[1]), constant_array(node.inputs[2])
    if starts is None or ends is None:
        return False
    axes, steps = (_optional(node, index) for index in (3, 4))
    if axes is None and len(node.inputs) > 3 and node.inputs[3] is not None:
        return False
    if steps is None and len(node.inputs) > 4 and node.inputs[4] is not None:
        return False
    axes = np.arange(len(starts)) if axes is None else axes
    steps = np.ones(len(starts), dtype=np.int64) if steps is None else steps
    new_starts, new_ends = starts.copy(), ends.copy()
    for i, (axis, step) in enumerate(zip(axes, steps, strict=True)):
        if step <= 0:
            continue
        size = _size(node, int(axis))
        if size is None:
            new_ends[i] = min(int(ends[i]), _INT32_MAX)
            continue
        new_starts[i] = _plain(int(starts[i]), size)
        new_ends[i] = _plain(int(ends[i]), size)
    changed = False
    for index, old, new in ((1, starts, new_starts), (2, ends, new_ends)):
        if not np.array_equal(old, new):
            _put(node, index, new)
            changed = True
    return changed


def _optional(node: ir.Node, index: int) -> npt.NDArray[np.int64] | None:
    return constant_array(node.inputs[index]) if index < len(node.inputs) else None


def _plain(position: int, size: int) -> int:
    return min(max(position + size if position < 0 else position, 0), size)


def _put(node: ir.Node, index: int, array: npt.NDArray[np.int64]) -> None:
    node.replace_input_with(index, Patch(node).constant(array))
