"""ONNX Runtime's fused operators in transformer files from elsewhere, for CPU targets."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir
from onnxscript.rewriter.ort_fusions import optimize_for_ort

from chipwise.check.infer import quiet_libraries
from chipwise.rewrite.edit import remove_unused
from chipwise.rewrite.pass_ import PassResult, RewriteContext, Tolerance

MICROSOFT = "com.microsoft"

_TOLERANCE = Tolerance(max_rel=1e-3, max_abs=1e-5)


@dataclass(frozen=True)
class OrtFusions:
    """Fuse what onnxscript's rules for ONNX Runtime find.

    1. Normalizations: RMSNormalization, SkipLayerNormalization, SkipSimplifiedLayerNormalization.
    2. Attention: RotaryEmbedding, MultiHeadAttention, GroupQueryAttention, Attention.
    3. GELU with bias, MatMul with transposes.
    4. A graph in which nothing is found stays as it was, not even folded.

    ONNX Runtime fuses more by itself when it loads a graph; this pass is for what it does not find. It is optional:
    a fusion that moves the outputs is dropped with the whole pass.
    """

    name: str = "ort_fusions"
    requires: tuple[str, ...] = ("constant_folding", "mask_constant")
    optional: bool = True
    tolerance: Tolerance = _TOLERANCE

    def apply(self, model: ir.Model, context: RewriteContext) -> PassResult:
        """Apply the fusions."""
        with quiet_libraries():
            model, counts = optimize_for_ort(model)
        found = {name: count for name, count in counts.items() if count}
        if not found:
            return PassResult(model, False)
        remove_unused(model)
        model.graph.opset_imports.setdefault(MICROSOFT, 1)
        return PassResult(model, True, (", ".join(f"{count} {name}" for name, count in found.items()),))
