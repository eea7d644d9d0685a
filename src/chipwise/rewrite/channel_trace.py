"""Channel trace: which constants to change so that a value inside a graph has each of its channels scaled."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from chipwise.check.constants import constant_tensor
from chipwise.check.symbolic import static_shape
from chipwise.rewrite.edit import Patch, attribute_int

# f(c * x) = c * f(x) for every c > 0, channel by channel.
_HOMOGENEOUS = frozenset(
    {"AveragePool", "Dropout", "GlobalAveragePool", "GlobalMaxPool", "Identity", "LeakyRelu", "MaxPool", "Neg", "Relu"}
)
_DEPTH = 16

Axes = tuple[int, ...]
"""Axes of a value that together number its channels, the slowest first: ``(2,)``, or ``(1, 3)`` for heads and sizes."""


@dataclass(frozen=True)
class Edit:
    """A constant whose slices are scaled.

    Attributes:
        node: The node that reads it.
        index: Which of the node's inputs it is.
        axis: The axis of the constant that runs over the channels.
        multiplies: Whether slices are multiplied by the channels' factors; else divided.
    """

    node: ir.Node
    index: int
    axis: int
    multiplies: bool

    def array(self) -> npt.NDArray[np.float32]:
        """The constant as it is now.

        Raises:
            ValueError: It is none any more.
        """
        tensor = constant_tensor(self.node.inputs[self.index])
        if tensor is None:
            raise ValueError("the input is no constant")
        return np.asarray(tensor.numpy())

    def apply(self, factors: npt.NDArray[np.float64]) -> None:
        """Give the node a constant of its own with every slice scaled by its channel's factor, ``[channels]``."""
        array = self.array()
        shape = [1] * max(array.ndim, 1)
        shape[self.axis] = len(factors)
        scale = (factors if self.multiplies else 1 / factors).reshape(shape)
        scaled = (array.astype(np.float64) * scale).astype(array.dtype)
        self.node.replace_input_with(self.index, Patch(self.node).constant(scaled))


def trace_back(value: ir.Value | None, axes: Axes, *, multiplies: bool) -> list[Edit] | None:
    """The constants by which the channels of a value are scaled where they are made.

    1. MatMul, Gemm, Conv and the bias behind them; the weight of a norm, LayerNormalization or written out.
    2. Through Transpose, Reshape, what is homogeneous (ReLU, pooling), a factor or a second operand of Mul, the values
       that attention mixes.
    3. A value on the way that is used elsewhere too, or leaves the graph: nothing is found.

    Args:
        value: The value.
        axes: Its axes that number the channels.
        multiplies: Whether the value shall grow by the factors; else shrink.

    Returns:
        The edits; None if the value cannot be scaled so.
    """
    return _Trace(multiplies).back(value, axes, _DEPTH)


def single_use(value: ir.Value) -> bool:
    """Whether one node alone reads a value."""
    return len(list(value.uses())) == 1 and not value.is_graph_output()


@dataclass(frozen=True)
class _Trace:
    multiplies: bool

    def back(self, value: ir.Value | None, axes: Axes, depth: int) -> list[Edit] | None:
        node = None if value is None else value.producer()
        shape = static_shape(value)
        if value is None or node is None or node.domain or shape is None or depth == 0:
            return None
        if value is not node.outputs[0] or value.is_graph_output():
            return None
        step = getattr(self, f"_{node.op_type.lower()}", None)
        if node.op_type in _HOMOGENEOUS:
            return self._on(node.inputs[0], axes, depth)
        found: list[Edit] | None = None if step is None else step(node, axes, len(shape), depth)
        return found

    def _on(self, value: ir.Value | None, axes: Axes, depth: int) -> list[Edit] | None:
        """What makes a value that only the node we come from reads."""
        return self.back(value, axes, depth - 1) if value is not None and single_use(value) else None

    def _edit(self, node: ir.Node, index: int, axis: int) -> Edit:
        return Edit(node, index, axis, self.multiplies)

    def _matmul(self, node: ir.Node, axes: Axes, rank: int, depth: int) -> list[Edit] | None:
        one, other = node.inputs[:2]
        weight = constant_tensor(other)
        if weight is not None:
            return [self._edit(node, 1, 1)] if weight.shape.rank() == 2 and axes == (rank - 1,) else None
        for operand, outer in ((other, rank - 1), (one, rank - 2)):
            # Rows of the one operand, columns of the other, and what counts the matrices of both.
            fits = all(axis == outer or axis < rank - 2 for axis in axes)
            if fits and constant_tensor(operand) is None and _same_sizes(operand, node.outputs[0], axes):
                return self._on(operand, axes, depth)
        return None

    def _gemm(self, node: ir.Node, axes: Axes, rank: int, depth: int) -> list[Edit] | None:
        if axes != (1,) or constant_tensor(node.inputs[1]) is None:
            return None
        edits = [self._edit(node, 1, 0 if attribute_int(node, "transB", 0) else 1)]
        return self._with_constant(edits, node, 2, axes, rank)

    def _conv(self, node: ir.Node, axes: Axes, rank: int, depth: int) -> list[Edit] | None:
        if axes != (1,) or constant_tensor(node.inputs[1]) is None:
            return None
        edits = [self._edit(node, 1, 0)]
        if len(node.inputs) > 2 and node.inputs[2] is not None:
            if constant_tensor(node.inputs[2]) is None:
                return None
            edits.append(self._edit(node, 2, 0))
        return edits

    def _layernormalization(self, node: ir.Node, axes: Axes, rank: int, depth: int) -> list[Edit] | None:
        if axes != (rank - 1,) or constant_tensor(node.inputs[1]) is None:
            return None
        return self._with_constant([self._edit(node, 1, -1)], node, 2, axes, rank)

    def _add(self, node: ir.Node, axes: Axes, rank: int, depth: int) -> list[Edit] | None:
        for index in (0, 1):
            if constant_tensor(node.inputs[index]) is not None:
                edits = self._on(node.inputs[1 - index], axes, depth)
                return None if edits is None else self._with_constant(edits, node, index, axes, rank)
        both = [self._on(value, axes, depth) for value in node.inputs]
        if not all(_same_sizes(value, node.outputs[0], axes) for value in node.inputs):
            return None
        return None if None in both else [edit for edits in both for edit in edits or ()]

    def _mul(self, node: ir.Node, axes: Axes, rank: int, depth: int) -> list[Edit] | None:
        for index in (0, 1):
            tensor = constant_tensor(node.inputs[index])
            if tensor is not None and tensor.size > 1:
                return self._with_constant([], node, index, axes, rank)
            if tensor is not None:
                return self._on(node.inputs[1 - index], axes, depth)
        for value in node.inputs:
            if _same_sizes(value, node.outputs[0], axes):
                found = self._on(value, axes, depth)
                if found is not None:
                    return found
        return None

    def _transpose(self, node: ir.Node, axes: Axes, rank: int, depth: int) -> list[Edit] | None:
        perm = node.attributes.get("perm")
        order = list(perm.as_ints()) if perm is not None else list(range(rank))[::-1]
        return self._on(node.inputs[0], tuple(order[axis] for axis in axes), depth)

    def _reshape(self, node: ir.Node, axes: Axes, rank: int, depth: int) -> list[Edit] | None:
        before, after = static_shape(node.inputs[0]), static_shape(node.outputs[0])
        if before is None or after is None:
            return None
        moved = _axes_before(before, after, axes)
        return None if moved is None else self._on(node.inputs[0], moved, depth)

    def _with_constant(self, edits: list[Edit], node: ir.Node, index: int, axes: Axes, rank: int) -> list[Edit] | None:
        """The edits and that of a constant with a number a channel, if the node has one there."""
        if len(node.inputs) <= index or node.inputs[index] is None:
            return edits
        tensor = constant_tensor(node.inputs[index])
        size = (static_shape(node.outputs[0]) or ())[axes[0]]
        if tensor is None or len(axes) != 1 or axes[0] - rank < -len(tensor.shape):
            return None
        axis = axes[0] - rank
        return [*edits, self._edit(node, index, axis)] if tensor.shape[axis] == size else None


def _same_sizes(value: ir.Value | None, result: ir.Value, axes: Axes) -> bool:
    """Whether an operand has the channels of a result: one that is repeated over them cannot be scaled by them."""
    shape, wanted = static_shape(value), static_shape(result)
    if shape is None or wanted is None or len(shape) != len(wanted):
        return False
    return all(shape[axis] == wanted[axis] for axis in axes)


def _axes_before(before: Sequence[int], after: Sequence[int], axes: Axes) -> Axes | None:
    """The axes before a Reshape that number the same channels, in the same order; None if it mixes them with others."""
    if list(axes) != list(range(axes[0], axes[-1] + 1)):
        return None
    outside = math.prod(after[: axes[0]])
    channels = math.prod(after[axes[0] : axes[-1] + 1])
    for first in range(len(before)):
        if math.prod(before[:first]) != outside or before[first] == 1:
            continue
        for last in range(first, len(before)):
            if math.prod(before[first : last + 1]) == channels:
                return tuple(range(first, last + 1))
    return None
