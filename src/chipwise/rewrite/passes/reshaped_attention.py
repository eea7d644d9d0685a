"""Reshaped attention: attention reads its projections through a Reshape, as one head of four dimensions."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from chipwise.check.constants import constant_tensor
from chipwise.check.infer import infer_types
from chipwise.check.symbolic import static_shape
from chipwise.rewrite.edit import Patch, all_nodes, attribute_int, remove_unused
from chipwise.rewrite.pass_ import ROUNDED, PassResult, RewriteContext, Tolerance

# Between a product and a softmax, or a projection and a product: every value stays at its place.
_ELEMENTWISE = frozenset({"Add", "Cast", "Div", "Identity", "Mul", "Sub", "Where"})
_DEPTH = 8
_RANKS = (2, 3, 4)


@dataclass(frozen=True)
class ReshapedAttention:
    """Put Reshapes around an attention whose queries or keys come straight from a projection or a graph input.

    rknn-toolkit2 2.5.0 fuses attention, and loses a tensor where nothing stands between the projection and the scores:
    its ``build`` ends with ``KeyError: 'q_mm'``, or ``IndexError`` in ``_p_fuse_exmatmul_add_mul_exsoftmax13_...``.
    With the operands as ``[batch, 1, length, size]`` it fuses them all into one exSDPAttention on the NPU.

    1. Two, three or four dimensions, one head or several, scaled and masked in any way.
    2. Queries and keys that come through a Reshape, as those of usual multi-head attention, stay.
    3. A mask that differs along one of two leading dimensions only, scores that are used elsewhere: it stays.
    """

    name: str = "reshaped_attention"
    requires: tuple[str, ...] = ("fix_shapes", "constant_folding")
    optional: bool = True
    tolerance: Tolerance = ROUNDED

    def apply(self, model: ir.Model, context: RewriteContext) -> PassResult:
        """Reshape each attention that needs it."""
        default_axis = -1 if model.graph.opset_imports.get("", 13) >= 13 else 1
        found = [_Attention.of(node, default_axis) for node in all_nodes(model) if _is(node, "Softmax")]
        sites = [site for site in found if site is not None and site.is_direct()]
        for site in sites:
            site.reshape()
        if not sites:
            return PassResult(model, False)
        remove_unused(model)
        infer_types(model)
        return PassResult(model, True, (f"{len(sites)} attentions read their operands through a Reshape",))


@dataclass(frozen=True)
class _Attention:
    """``MatMul(Softmax(chain(MatMul(query, key))), value)``, each link used by the next one alone.

    Attributes:
        scores: The product of queries and keys.
        chain: What follows it up to the softmax, each with the index of the input it hangs on.
        softmax: The softmax.
        weighted: The product with the values.
        shape: The scores' shape.
    """

    scores: ir.Node
    chain: tuple[tuple[ir.Node, int], ...]
    softmax: ir.Node
    weighted: ir.Node
    shape: tuple[int, ...]

    @classmethod
    def of(cls, softmax: ir.Node, default_axis: int) -> _Attention | None:
        """The attention around a softmax; None if there is none that this pass takes."""
        shape = static_shape(softmax.inputs[0])
        if shape is None or len(shape) not in _RANKS:
            return None
        if attribute_int(softmax, "axis", default_axis) not in (-1, len(shape) - 1):
            return None
        weighted = _only_user(softmax.outputs[0])
        if weighted is None or not _is(weighted, "MatMul") or weighted.inputs[0] is not softmax.outputs[0]:
            return None
        chain = _chain(softmax.inputs[0], shape, _DEPTH)
        if chain is None:
            return None
        site = cls(chain[0][0], chain[1:], softmax, weighted, shape)
        return site if site._fits() else None

    def _fits(self) -> bool:
        """Whether operands have the leading dimensions of the scores, and what joins the chain can be reshaped."""
        operands = [*self.scores.inputs, self.weighted.inputs[1]]
        leads = [None if (shape := static_shape(value)) is None else shape[:-2] for value in operands]
        sides = [value for node, index in self.chain for i, value in enumerate(node.inputs) if i != index]
        return all(lead == self.shape[:-2] for lead in leads) and all(self._side(one) is not None for one in sides)

    def is_direct(self) -> bool:
        """Whether queries or keys come from a projection or a graph input without a Reshape between."""
        query, key = self.scores.inputs[:2]
        return _comes_directly(query, _DEPTH) or _comes_directly(key, _DEPTH)

    def reshape(self) -> None:
        """Build it anew with four dimensions in place of the old one."""
        patch = Patch(self.weighted)
        query, key = self.scores.inputs[:2]
        turned = None if key is None else key.producer()
        if turned is not None and _is(turned, "Transpose") and _swaps_last(turned):
            keys = patch.op("Transpose", [self._reshaped(patch, turned.inputs[0])], {"perm": [0, 1, 3, 2]})
        else:
            keys = self._reshaped(patch, key)
        value = patch.op("MatMul", [self._reshaped(patch, query), keys])
        for node, index in self.chain:
            inputs = [value if i == index else self._joined(patch, one) for i, one in enumerate(node.inputs)]
            value = patch.op(node.op_type, inputs, node.attributes)
        weights = patch.op("Softmax", [value], {"axis": -1})
        result = patch.op("MatMul", [weights, self._reshaped(patch, self.weighted.inputs[1])])
        old = self.weighted.outputs[0]
        shape = static_shape(old) or ()
        patch.replace(old, patch.op("Reshape", [result, _shape(patch, shape)], like=old))

    def _reshaped(self, patch: Patch, value: ir.Value | None) -> ir.Value:
        shape = static_shape(value) or ()
        return patch.op("Reshape", [value, _shape(patch, (math.prod(shape[:-2]), 1, *shape[-2:]))])

    def _side(self, value: ir.Value | None) -> tuple[int, ...] | None:
        """The shape that something which joins the scores gets, None if there is none."""
        shape = static_shape(value)
        if shape is None or len(shape) <= 2:
            return shape
        lead = math.prod(shape[:-2])
        return (lead, 1, *shape[-2:]) if lead in (1, math.prod(self.shape[:-2])) else None

    def _joined(self, patch: Patch, value: ir.Value | None) -> ir.Value | None:
        shape = self._side(value)
        if value is None or shape is None or shape == static_shape(value):
            return value
        tensor = constant_tensor(value)
        if tensor is not None:
            return patch.constant(tensor.numpy().reshape(shape))
        return patch.op("Reshape", [value, _shape(patch, shape)])


def _is(node: ir.Node, op_type: str) -> bool:
    return node.op_type == op_type and not node.domain


def _only_user(value: ir.Value) -> ir.Node | None:
    users = list(value.uses())
    return users[0].node if len(users) == 1 and not value.is_graph_output() else None


def _chain(value: ir.Value | None, shape: tuple[int, ...], depth: int) -> tuple[tuple[ir.Node, int], ...] | None:
    """From the product of two activations to a value, the product first; None if there is no such chain."""
    node = None if value is None else value.producer()
    if value is None or node is None or depth == 0 or _only_user(value) is None or static_shape(value) != shape:
        return None
    if _is(node, "MatMul"):
        return None if any(constant_tensor(one) is not None for one in node.inputs) else ((node, 0),)
    if node.domain or node.op_type not in _ELEMENTWISE:
        return None
    for index, one in enumerate(node.inputs):
        before = _chain(one, shape, depth - 1)
        if before is not None:
            return (*before, (node, index))
    return None


def _comes_directly(value: ir.Value | None, depth: int) -> bool:
    if value is None or depth == 0 or constant_tensor(value) is not None:
        return False
    node = value.producer()
    if node is None:
        return value.is_graph_input()
    if node.domain:
        return False
    if node.op_type in ("MatMul", "Gemm"):
        return constant_tensor(node.inputs[1]) is not None
    if node.op_type not in _ELEMENTWISE and not (node.op_type == "Transpose" and _swaps_last(node)):
        return False
    return any(_comes_directly(one, depth - 1) for one in node.inputs)


def _swaps_last(node: ir.Node) -> bool:
    """Whether a Transpose exchanges the last two dimensions and keeps the others."""
    perm = node.attributes.get("perm")
    shape = static_shape(node.inputs[0])
    rank = 0 if shape is None else len(shape)
    order = list(perm.as_ints()) if perm is not None else list(range(rank))[::-1]
    return rank >= 2 and order == [*range(rank - 2), rank - 1, rank - 2]


def _shape(patch: Patch, shape: tuple[int, ...]) -> ir.Value:
    return patch.constant(np.asarray(shape, dtype=np.int64))
