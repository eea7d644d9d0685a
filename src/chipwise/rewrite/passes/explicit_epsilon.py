"""Explicit epsilon: normalizations say the epsilon, and the axis, that ONNX would assume."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from chipwise.check.rules.normalization import NORMALIZATIONS
from chipwise.rewrite.edit import all_nodes
from chipwise.rewrite.pass_ import EXACT, PassResult, RewriteContext, Tolerance

# ONNX's default of all of them, https://onnx.ai/onnx/operators/
_EPSILON = 1e-5

_WITH_AXIS = frozenset({"LayerNormalization", "RMSNormalization"})


@dataclass(frozen=True)
class ExplicitEpsilon:
    """Write ONNX's default epsilon and axis into normalizations that leave them out.

    Converters read the attribute without asking whether it is there (rknn-toolkit2 2.5.0 ends with
    ``KeyError: 'LayerNormalization'``).

    1. Layer, batch, instance, group and RMS normalization without ``epsilon`` get 1e-5.
    2. Layer and RMS normalization without ``axis`` get -1, which the same toolkit reads the same way.
    3. Those that have both keep them.
    """

    name: str = "explicit_epsilon"
    requires: tuple[str, ...] = ()
    optional: bool = False
    tolerance: Tolerance = EXACT

    def apply(self, model: ir.Model, context: RewriteContext) -> PassResult:
        """Write the attribute where it is missing."""
        epsilons = axes = 0
        for node in all_nodes(model):
            if node.domain or node.op_type not in NORMALIZATIONS:
                continue
            if "epsilon" not in node.attributes:
                node.attributes["epsilon"] = ir.AttrFloat32("epsilon", _EPSILON)
                epsilons += 1
            if node.op_type in _WITH_AXIS and "axis" not in node.attributes:
                node.attributes["axis"] = ir.AttrInt64("axis", -1)
                axes += 1
        counts = ((epsilons, f"epsilon {_EPSILON:g}"), (axes, "axis -1"))
        notes = tuple(f"wrote {what} into {count} nodes" for count, what in counts if count)
        return PassResult(model, bool(notes), notes)
