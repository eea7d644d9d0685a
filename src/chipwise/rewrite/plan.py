"""Which passes a target needs, from its data."""

from __future__ import annotations

from chipwise.check.activations import Activation
from chipwise.rewrite.pass_ import Pass
from chipwise.rewrite.passes.activation_forms import OPERATORS, ActivationForms, Form
from chipwise.rewrite.passes.constant_folding import ConstantFolding
from chipwise.rewrite.passes.constants_as_initializers import ConstantsAsInitializers
from chipwise.rewrite.passes.conv_bn_relu import ConvBnRelu
from chipwise.rewrite.passes.einsum_by_matmul import EinsumByMatMul
from chipwise.rewrite.passes.erf_by_tanh import ErfByTanh
from chipwise.rewrite.passes.explicit_epsilon import ExplicitEpsilon
from chipwise.rewrite.passes.fix_shapes import FixShapes
from chipwise.rewrite.passes.four_dimensions import FourDimensions
from chipwise.rewrite.passes.index_forms import IndexForms
from chipwise.rewrite.passes.input_types import InputTypes
from chipwise.rewrite.passes.mask_constant import SmallestMask
from chipwise.rewrite.passes.opset_conversion import OpsetConversion
from chipwise.rewrite.passes.ort_fusions import OrtFusions
from chipwise.rewrite.passes.reshaped_attention import ReshapedAttention
from chipwise.rewrite.passes.scalar_borders import ScalarBorders
from chipwise.rewrite.passes.split_wide_matmul import SplitWideMatMul
from chipwise.rewrite.passes.unused_outputs import UnusedOutputs
from chipwise.rewrite.passes.widen_floats import WidenFloats
from chipwise.target.constraints import Constraints
from chipwise.target.target import Target

_ORT = "onnxruntime"


def passes_for(target: Target) -> list[Pass]:
    """The passes that bring any ONNX graph towards a target, in order.

    Shapes come first, for everything else reads them. Activations are chosen while the operators they came as are
    still there; then the opset is lowered, which writes out what the toolchain does not know; masks, epsilons and
    the like come after, because what was written out has them too.
    """
    limits = target.constraints
    passes: list[Pass] = []
    if limits.refused_input_dtypes is not None:
        passes.append(InputTypes(limits.refused_input_dtypes.value))
    passes += [WidenFloats(), FixShapes(), ConstantFolding()]
    if limits.scalar_borders is not None and not limits.scalar_borders.value:
        passes.append(ScalarBorders())
    if target.engine != _ORT:
        passes += _for_accelerator(limits)
    if limits.unused_outputs is not None and not limits.unused_outputs.value:
        passes.append(UnusedOutputs())
    if limits.explicit_epsilon is not None and limits.explicit_epsilon.value:
        passes.append(ExplicitEpsilon())
    passes += [SmallestMask(), ConvBnRelu()]
    if limits.rank_max is not None:
        passes.append(FourDimensions(int(limits.rank_max)))
    if limits.reshaped_attention is not None and limits.reshaped_attention.value:
        passes.append(ReshapedAttention())
    if limits.out_columns_max is not None:
        passes.append(SplitWideMatMul(int(limits.out_columns_max)))
    # Last: the passes before may leave constants of any form.
    passes.append(OrtFusions() if target.engine == _ORT else ConstantsAsInitializers())
    return passes


def wants_sizes(one: Pass) -> bool:
    """Whether a pass fixes sizes or reads them, so that a graph of several shapes is left to the toolchain there.

    Constants are folded without: a size that is not known stays an operator.
    """
    return one.name == "fix_shapes" or ("fix_shapes" in one.requires and one.name != "constant_folding")


def _for_accelerator(limits: Constraints) -> list[Pass]:
    forms = activation_forms(limits)
    highest = None if limits.opset_max is None else int(limits.opset_max)
    lowest = 1 if limits.opset_min is None else int(limits.opset_min)
    passes: list[Pass] = [ActivationForms(forms), OpsetConversion(highest=highest, lowest=lowest), IndexForms()]
    if _place(limits, "Einsum") in ("cpu", "unsupported"):
        passes.append(EinsumByMatMul())
    if _place(limits, "Erf") in ("cpu", "unsupported"):
        # A toolchain that has GELU finds it in the written-out form and fuses it.
        passes.append(ErfByTanh(in_gelu=_place(limits, "Gelu") != "npu"))
    return passes


def activation_forms(limits: Constraints) -> dict[Activation, Form]:
    """The form of each activation: the operator where the accelerator runs it and the toolchain's opset has it."""
    forms: dict[Activation, Form] = {}
    for kind, (operator, since) in OPERATORS.items():
        readable = limits.opset_max is None or int(limits.opset_max) >= since
        forms[kind] = "operator" if readable and _place(limits, operator) == "npu" else "written_out"
    return forms


def _place(limits: Constraints, op_type: str) -> str | None:
    placement = limits.place(op_type)
    return None if placement is None else placement.place
