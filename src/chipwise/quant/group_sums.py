"""Group sums: the sums of a linear layer's inputs over groups of neighbours, as further inputs of the layer.

A weight whose groups carry a ``rest`` beside their zero_point (see ``stored_grid``) adds ``rest * sum(group of x)`` to
each output. With the sums appended to x and the rests to the weight's columns the same kernel computes both.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from chipwise.quant.blockwise import BlockwiseWeight, pack, quantize_blockwise, unpack

_SHAPE, _AXES = "group_sums.shape.{}.{}", "group_sums.axes.{}"


class GroupSums:
    """Appends group sums to values of a graph, once a value."""

    def __init__(self, graph: ir.Graph, group_size: int) -> None:
        """Nothing is added before a value is asked for."""
        self._graph, self._group_size = graph, group_size
        self._made: dict[ir.Value, ir.Value] = {}

    def appended(self, value: ir.Value, before: ir.Node, rank: int) -> ir.Value:
        """A value ``[..., channels]`` with the sums of its groups behind its channels.

        Args:
            value: The input of one or more linear layers.
            before: The first node that reads it, in the order of the graph.
            rank: The value's rank.
        """
        made = self._made.get(value)
        if made is None:
            # A zero in the shape keeps an axis as it is.
            shape = self._constant(_SHAPE.format(rank, self._group_size), [0] * (rank - 1) + [-1, self._group_size])
            axes = self._constant(_AXES.format(rank), [rank])
            nodes = [ir.node("Reshape", [value, shape])]
            nodes.append(ir.node("ReduceSum", [nodes[0].outputs[0], axes], {"keepdims": 0}))
            nodes.append(ir.node("Concat", [value, nodes[1].outputs[0]], {"axis": rank - 1}))
            self._graph.insert_before(before, nodes)
            made = self._made[value] = nodes[-1].outputs[0]
        return made

    def _constant(self, name: str, values: list[int]) -> ir.Value:
        known = self._graph.initializers.get(name)
        if known is None:
            tensor = ir.tensor(np.array(values, np.int64), name=name)
            known = ir.Value(
                name=name, shape=ir.Shape([len(values)]), type=ir.TensorType(tensor.dtype), const_value=tensor
            )
            self._graph.register_initializer(known)
        return known


def groups_without_rest(groups: int, group_size: int) -> int:
    """Groups a row had before ``with_rest`` appended one value for each of them."""
    return groups * group_size // (group_size + 1)


def with_rest(weight: BlockwiseWeight, rest: npt.NDArray[np.float32]) -> BlockwiseWeight:
    """A 4-bit weight with its groups' rests ``[rows, groups]`` as further columns, in 4 bits too."""
    if weight.zero_points is None:
        raise ValueError("a weight with a rest has zero_points")
    tail = quantize_blockwise(rest, bits=weight.bits, group_size=weight.group_size, symmetric=False)
    zeros = [
        unpack(one.zero_points, one.bits)[:, : one.scales.shape[1]]
        for one in (weight, tail)
        if one.zero_points is not None
    ]
    return BlockwiseWeight(
        np.concatenate([weight.packed, tail.packed], axis=1),
        np.concatenate([weight.scales, tail.scales], axis=1),
        pack(np.concatenate(zeros, axis=1), weight.bits),
        weight.bits,
        weight.group_size,
        weight.columns + rest.shape[1],
    )
