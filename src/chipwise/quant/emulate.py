"""Emulation: a chip's 8-bit activations on a host, by QuantizeLinear and DequantizeLinear at every value it stores.

The graph then computes in float32 with the numbers the chip would have: a product of 8-bit integers summed in int32 is
the same sum of the same numbers, but for float32's own rounding. A runtime must not merge or move the pairs: open such
a graph with ``fuse_qdq=False`` (docs/adr/0010-emulation.md).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import onnx_ir as ir

from chipwise.check.constants import constant_tensor
from chipwise.errors import RewriteError
from chipwise.quant.affine import Affine, affine
from chipwise.quant.calibration import ValueRange
from chipwise.quant.interior import interior_values, norm_weights
from chipwise.quant.pairs import insert_pair
from chipwise.target import Target

# These hand on what they read: a chip keeps its integers and their scale.
_CARRIERS = frozenset(
    {
        "Expand",
        "Flatten",
        "Gather",
        "Identity",
        "Reshape",
        "Slice",
        "Split",
        "Squeeze",
        "Tile",
        "Transpose",
        "Unsqueeze",
    }
)
# Their constant operands are tensors like the others. A norm's weight and a product's bias stay inside the operator.
_COMBINING = frozenset({"Add", "Concat", "Div", "Gather", "Max", "Min", "Mul", "PRelu", "Sub", "Where"})


def stored_values(model: ir.Model, fused: Collection[str] = ()) -> list[str]:
    """Names of the values a chip with 8-bit activations stores between its operators, graph inputs first.

    All that float operators compute, but for what stays inside fused ones (``interior.py``) and what is only moved.
    Functions must be inlined, and the graph's types known.

    Args:
        model: The graph.
        fused: What the chip's compiler fuses behind a product (see ``interior_values``).
    """
    return [str(value.name) for value in _Stored(model.graph, fused).values()]


def stored_origins(model: ir.Model, fused: Collection[str] = ()) -> dict[str, str]:
    """For every value that is only moved, the name of the stored value whose integers it hands on."""
    stored = _Stored(model.graph, fused)
    return {
        str(value.name): str(stored.origin(value).name)
        for node in model.graph
        for value in node.outputs
        if stored.origin(value) is not value
    }


def emulate_activations(
    model: ir.Model, ranges: Mapping[str, ValueRange], fused: Collection[str] = ()
) -> dict[str, Affine]:
    """Put a pair at every stored value and every constant operand, in place.

    A value keeps its name where its integers are read back; the number before is called ``NAME.float``. Scales of
    constants come from the constants. Weights of products are left to ``quantize_int_weights``.

    Args:
        model: A graph with its functions inlined.
        ranges: The range of each of ``stored_values``; more do no harm.
        fused: What the chip's compiler fuses behind a product (see ``interior_values``).

    Returns:
        The scale of each stored value, by name.

    Raises:
        RewriteError: A value has no range.
    """
    graph = model.graph
    stored = _Stored(graph, fused)
    values, constants = list(stored.values()), list(stored.constants())
    missing = [str(value.name) for value in values if value.name not in ranges]
    if missing:
        raise RewriteError(f"{len(missing)} values have no calibrated range, e.g. {missing[0]}", where=str(graph.name))
    scales: dict[str, Affine] = {}
    for value in values:
        found = ranges[str(value.name)]
        scales[str(value.name)] = affine(found.low, found.high)
    for value in values:
        insert_pair(graph, value, scales[str(value.name)])
    for value in constants:
        tensor = constant_tensor(value)
        if tensor is not None:
            array = tensor.numpy()
            insert_pair(graph, value, affine(float(array.min()), float(array.max())))
    return scales


def fused_tails(target: Target) -> tuple[str, ...]:
    """What a target's compiler fuses behind a product; nothing where nobody says."""
    found = target.constraints.fused_tails
    return () if found is None else tuple(found.value)


class _Stored:
    """What of a graph has integers of its own."""

    def __init__(self, graph: ir.Graph, fused: Collection[str]) -> None:
        self._graph = graph
        self._interior = interior_values(graph, fused)
        self._left = norm_weights(graph, self._interior)

    def values(self) -> Iterator[ir.Value]:
        for value in self._graph.inputs:
            if value.dtype == ir.DataType.FLOAT and value.name not in self._graph.initializers:
                yield value
        for node in self._graph:
            if node.op_type == "Constant" or (self._moves(node) and self._has_scale(node.inputs[0])):
                continue
            for value in node.outputs:
                if _is_float(value) and value not in self._interior:
                    yield value

    def origin(self, value: ir.Value) -> ir.Value:
        """Where the integers of a value come from: itself, unless carriers only moved it here."""
        node = value.producer()
        while node is not None and self._moves(node) and self._has_scale(node.inputs[0]):
            source = node.inputs[0]
            if source is None:
                break
            value, node = source, source.producer()
        return value

    def constants(self) -> Iterator[ir.Value]:
        """Tables and masks: constants of more than one number that are combined with activations."""
        seen: set[ir.Value] = set()
        for node in self._graph:
            if node.domain or node.op_type not in _COMBINING or self._is_embedding(node):
                continue
            for value in node.inputs:
                if value is None or value in seen or value in self._left:
                    continue
                seen.add(value)
                tensor = constant_tensor(value)
                if tensor is not None and tensor.dtype == ir.DataType.FLOAT and tensor.size > 1:
                    yield value

    def _moves(self, node: ir.Node) -> bool:
        return not node.domain and node.op_type in _CARRIERS

    def _has_scale(self, value: ir.Value | None) -> bool:
        """Whether what a carrier moves has integers already: everything does but an embedding's rows."""
        if value is None:
            return False
        node = value.producer()
        if node is None:
            return not any(self._is_embedding(user) for user, _ in value.uses())
        return True

    def _is_embedding(self, node: ir.Node) -> bool:
        """Whether a Gather picks rows by token: the look-up runs on the CPU, from floating point."""
        if node.op_type != "Gather" or node.domain:
            return False
        table, ids = constant_tensor(node.inputs[0]), node.inputs[1]
        return table is not None and len(table.shape) == 2 and ids is not None and str(ids.name) == "input_ids"


def _is_float(value: ir.Value) -> bool:
    return value.dtype in (ir.DataType.FLOAT, None)
