"""Channel sites: where a graph's channels can be made larger or smaller without changing what it computes."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from chipwise.check.constants import constant_tensor
from chipwise.check.symbolic import static_shape
from chipwise.rewrite.channel_trace import Axes, Edit, trace_back
from chipwise.rewrite.edit import attribute_int


@dataclass(frozen=True)
class ChannelSite:
    """A value whose channels may be divided by any positive factors, because what reads it makes up for them.

    Attributes:
        value: The value.
        axes: Its axes that number the channels, the slowest first.
        channels: How many there are.
        writers: Constants that are divided by the factors.
        readers: Constants that are multiplied by them; those that make ``partner`` where there is one.
        partner: The other operand of a product of two activations; None where weights read the value.
        partner_axes: Its axes that number the same channels.
    """

    value: ir.Value
    axes: Axes
    channels: int
    writers: tuple[Edit, ...]
    readers: tuple[Edit, ...]
    partner: ir.Value | None = None
    partner_axes: Axes = ()

    @property
    def name(self) -> str:
        """The value's name."""
        return str(self.value.name)


def channel_sites(graph: ir.Graph) -> list[ChannelSite]:
    """Every site of a graph whose shapes are known, in its order.

    1. What a norm, a MatMul, Gemm or Conv makes and only weights of such products read: through ReLU and pooling, the
       linear side of a gated product (``up`` of ``act * up``), and what attention mixes (``v`` up to ``o``).
    2. Queries and keys: the one grows as the other shrinks.
    """
    found = []
    for node in graph:
        for value in node.outputs:
            site = _read_by_weights(value)
            if site is not None:
                found.append(site)
        if node.op_type == "MatMul" and not node.domain:
            site = _read_by_activations(node)
            if site is not None:
                found.append(site)
    return found


def _read_by_weights(value: ir.Value) -> ChannelSite | None:
    shape = static_shape(value)
    uses = list(value.uses())
    if shape is None or not uses or value.is_graph_output() or value.dtype not in (ir.DataType.FLOAT, None):
        return None
    readers: list[Edit] = []
    places: set[int] = set()
    for node, index in uses:
        read = _reader(node, index, len(shape))
        if read is None:
            return None
        readers.append(read[0])
        places.add(read[1])
    if len(places) != 1:
        return None
    axis = places.pop()
    writers = trace_back(value, (axis,), multiplies=False)
    if not writers:
        return None
    return ChannelSite(value, (axis,), shape[axis], tuple(writers), tuple(readers))


def _reader(node: ir.Node, index: int, rank: int) -> tuple[Edit, int] | None:
    """The weight by which a product makes up for scaled channels, and the axis of these in what it reads."""
    if node.domain or index != 0 or len(node.inputs) < 2:
        return None
    weight = constant_tensor(node.inputs[1])
    if weight is None or node.graph is None:
        return None
    if node.op_type == "MatMul" and weight.shape.rank() == 2:
        return Edit(node, 1, 0, multiplies=True), rank - 1
    if node.op_type == "Gemm" and not attribute_int(node, "transA", 0):
        return Edit(node, 1, 1 if attribute_int(node, "transB", 0) else 0, multiplies=True), 1
    if node.op_type == "Conv":
        group = attribute_int(node, "group", 1)
        if group == 1:
            return Edit(node, 1, 1, multiplies=True), 1
        if group == weight.shape[0] and weight.shape[1] == 1:
            return Edit(node, 1, 0, multiplies=True), 1
    return None


def _read_by_activations(node: ir.Node) -> ChannelSite | None:
    """Queries and keys: channels are what the product sums over, in every matrix of the batch."""
    one, other = node.inputs[:2]
    shape, partner_shape = static_shape(one), static_shape(other)
    if one is None or other is None or shape is None or partner_shape is None or len(shape) != len(partner_shape):
        return None
    if any(len(list(value.uses())) != 1 or constant_tensor(value) is not None for value in (one, other)):
        return None
    if shape[:-2] != partner_shape[:-2]:
        return None
    rank = len(shape)
    batch = tuple(axis for axis in range(rank - 2) if shape[axis] > 1)
    axes, partner_axes = (*batch, rank - 2), (*batch, rank - 1)
    writers = trace_back(other, axes, multiplies=False)
    readers = trace_back(one, partner_axes, multiplies=True)
    if not writers or not readers:
        return None
    channels = 1
    for axis in axes:
        channels *= partner_shape[axis]
    return ChannelSite(other, axes, channels, tuple(writers), tuple(readers), one, partner_axes)
