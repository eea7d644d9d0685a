"""Explicit epsilon: normalizations say the epsilon that ONNX would assume."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from chipwise.check.rules.normalization import NORMALIZATIONS
from chipwise.rewrite.edit import all_nodes
from chipwise.rewrite.pass_ import EXACT, PassResult, RewriteContext, Tolerance

# ONNX's default of all of them, https://onnx.ai/onnx/operators/
_EPSILON = 1e-5


@dataclass(frozen=True)
class ExplicitEpsilon:
    """Write ONNX's default epsilon into normalizations that leave it out.

    Converters read the attribute without asking whether it is there (rknn-toolkit2 2.5.0 ends with
    ``KeyError: 'LayerNormalization'``).

    1. Layer, batch, instance, group and RMS normalization without ``epsilon`` get 1e-5.
    2. Those that have one keep it.
    """

    name: str = "explicit_epsilon"
    requires: tuple[str, ...] = ()
    optional: bool = False
    tolerance: Tolerance = EXACT

    def apply(self, model: ir.Model, context: RewriteContext) -> PassResult:
        """Write the attribute where it is missing."""
        changed = 0
        for node in all_nodes(model):
            if node.domain == "" and node.op_type in NORMALIZATIONS and "epsilon" not in node.attributes:
                node.attributes["epsilon"] = ir.AttrFloat32("epsilon", _EPSILON)
                changed += 1
        notes = (f"wrote epsilon {_EPSILON:g} into {changed} nodes",) if changed else ()
        return PassResult(model, bool(changed), notes)
