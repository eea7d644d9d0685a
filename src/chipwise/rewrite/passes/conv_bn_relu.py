"""Conv, BatchNormalization, Relu: a normalization that follows a convolution becomes part of its weights."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import onnx_ir as ir
from onnxscript.rewriter import rewrite
from onnxscript.rewriter.rules.common import (
    fuse_batchnorm_into_conv_rule,
    fuse_batchnorm_into_conv_transpose_rule,
    fuse_batchnorm_into_gemm_rule,
    fuse_pad_into_conv_rule,
    normalize_pad_format_conv_rule,
    successive_clip_relu_rule,
    successive_clip_rule,
    successive_relu_clip_rule,
    successive_relu_rule,
)

from chipwise.check.infer import infer_types, quiet_libraries
from chipwise.rewrite.edit import all_nodes, lift_constants, remove_unused
from chipwise.rewrite.pass_ import PassResult, RewriteContext, Tolerance

_RULES = (
    normalize_pad_format_conv_rule,
    fuse_pad_into_conv_rule,
    fuse_batchnorm_into_conv_rule,
    fuse_batchnorm_into_conv_transpose_rule,
    fuse_batchnorm_into_gemm_rule,
    successive_relu_rule,
    successive_relu_clip_rule,
    successive_clip_relu_rule,
    successive_clip_rule,
)
_COUNTED = ("BatchNormalization", "Pad", "Relu", "Clip")

_TOLERANCE = Tolerance(max_rel=1e-5, max_abs=1e-5)


@dataclass(frozen=True)
class ConvBnRelu:
    """Leave a convolution and its activation side by side, which is what toolchains fuse.

    1. BatchNormalization after Conv, ConvTranspose or Gemm goes into weight and bias.
    2. Pad in front of Conv goes into its ``pads``.
    3. Relu and Clip in a row become one.
    4. A BatchNormalization whose convolution has another user, computed weights, or weights shared with another
       node stays, and is counted in the notes.
    """

    name: str = "conv_bn_relu"
    requires: tuple[str, ...] = ("constant_folding",)
    optional: bool = True
    tolerance: Tolerance = _TOLERANCE

    def apply(self, model: ir.Model, context: RewriteContext) -> PassResult:
        """Apply onnxscript's rules for these."""
        before = _count(model)
        if not any(before.values()):
            return PassResult(model, False)
        lift_constants(model)
        infer_types(model)
        with quiet_libraries():
            model = rewrite(model, list(_RULES))
        remove_unused(model)
        infer_types(model)
        after = _count(model)
        gone = before - after
        notes = [f"{count} {op} fused" for op, count in gone.items()]
        if after["BatchNormalization"]:
            notes.append(f"{after['BatchNormalization']} BatchNormalization stay")
        return PassResult(model, bool(gone), tuple(notes))


def _count(model: ir.Model) -> Counter[str]:
    return Counter(node.op_type for node in all_nodes(model) if node.op_type in _COUNTED and not node.domain)
