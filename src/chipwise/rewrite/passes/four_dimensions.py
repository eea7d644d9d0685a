"""Four dimensions: operators on tensors of more dimensions work on fewer, between two Reshapes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import onnx_ir as ir

from chipwise.check.constants import constant_array
from chipwise.check.infer import infer_types
from chipwise.check.symbolic import static_shape
from chipwise.rewrite.edit import Patch, all_nodes, attribute_int, remove_unused
from chipwise.rewrite.pass_ import EXACT, PassResult, RewriteContext, Tolerance

_BINARY = frozenset({"Add", "Div", "Max", "Min", "Mul", "Pow", "Sub"})
_AXES = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class FourDimensions:
    """Let operators of more dimensions work on at most as many as the toolchain takes everywhere.

    rknn-toolkit2 2.5.0 ends with ``'IRGraph' object has no attribute 'node_use_target_const'`` at an Add or Mul of a
    constant and a tensor of 5 dimensions, and at a Softmax of 6.

    1. Arithmetic with a constant that is not larger than the tensor: neighbouring axes along which the constant is the
       same, or as long as the tensor, become one.
    2. Softmax along the last axis: the leading axes become one.
    3. Other operators, and constants that leave no axes to join, stay.

    Attributes:
        rank_max: The most dimensions.
    """

    rank_max: int = 4
    name: str = "four_dimensions"
    requires: tuple[str, ...] = ("fix_shapes", "constant_folding")
    optional: bool = True
    tolerance: Tolerance = EXACT

    def apply(self, model: ir.Model, context: RewriteContext) -> PassResult:
        """Reshape around each operator that has too many dimensions."""
        default_axis = -1 if model.graph.opset_imports.get("", 13) >= 13 else 1
        changed = 0
        for node in all_nodes(model):
            shape = static_shape(node.outputs[0]) if node.outputs and not node.domain else None
            if shape is None or len(shape) <= self.rank_max:
                continue
            if node.op_type in _BINARY:
                changed += self._arithmetic(node, shape)
            elif node.op_type == "Softmax" and attribute_int(node, "axis", default_axis) in (-1, len(shape) - 1):
                _reshape(node, {0: self._joined(tuple((size, 1) for size in shape))}, shape, {"axis": -1})
                changed += 1
        if not changed:
            return PassResult(model, False)
        remove_unused(model)
        infer_types(model)
        return PassResult(model, True, (f"{changed} operators work on {self.rank_max} dimensions",))

    def _arithmetic(self, node: ir.Node, shape: tuple[int, ...]) -> bool:
        index = next((i for i in (0, 1) if constant_array(node.inputs[i]) is not None), None)
        if index is None or static_shape(node.inputs[1 - index]) != shape:
            return False
        array = constant_array(node.inputs[index])
        if array is None or array.size == 1:
            sizes = [1] * len(shape)
        else:
            sizes = [1] * (len(shape) - array.ndim) + list(array.shape)
        joined = self._joined(tuple(zip(shape, sizes, strict=True)))
        if len(joined) > self.rank_max:
            return False
        _reshape(node, {1 - index: joined, index: tuple((of, of) for _, of in joined)}, shape, dict(node.attributes))
        return True

    def _joined(self, axes: _AXES) -> _AXES:
        """Axes, each with the constant's size along it, joined from the left until they are few enough."""
        while len(axes) > self.rank_max:
            at = next((i for i, (one, two) in enumerate(pairwise(axes)) if _alike(one) & _alike(two)), None)
            if at is None:
                return axes
            one, two = axes[at], axes[at + 1]
            axes = (*axes[:at], (one[0] * two[0], one[1] * two[1]), *axes[at + 2 :])
        return axes


def _alike(axis: tuple[int, int]) -> set[str]:
    """How a constant lies along an axis: the same everywhere, or of its length; along an axis of 1 both."""
    size, of = axis
    return ({"same"} if of == 1 else set()) | ({"whole"} if of == size else set())


def _reshape(node: ir.Node, axes: dict[int, _AXES], shape: tuple[int, ...], attributes: dict[str, object]) -> None:
    """Put the node, on reshaped inputs, and a Reshape back in the node's place."""
    patch = Patch(node)
    inputs = list(node.inputs)
    for index, joined in axes.items():
        target = np.asarray([size for size, _ in joined], dtype=np.int64)
        array = constant_array(inputs[index])
        if array is not None and array.size == 1:
            continue  # a plain number fits any shape, and compilers look for it: x ** 2
        if array is not None:
            inputs[index] = patch.constant(array.reshape(target))
        else:
            inputs[index] = patch.op("Reshape", [inputs[index], patch.constant(target)])
    result = patch.op(node.op_type, inputs, attributes)
    back = patch.constant(np.asarray(shape, dtype=np.int64))
    patch.replace(node.outputs[0], patch.op("Reshape", [result, back], like=node.outputs[0]))
