"""Input types: graph inputs of types that the target's toolchain refuses become float32."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from chipwise.rewrite.edit import Patch, remove_unused
from chipwise.rewrite.pass_ import ROUNDED, PassResult, RewriteContext, Tolerance


@dataclass(frozen=True)
class InputTypes:
    """Let graph inputs of refused types be float32. The type of the input changes; feed it the same numbers.

    rknn-toolkit2 2.5.0 aborts the process on a uint8 input.

    1. An input that goes into casts to float32 goes where their outputs went.
    2. Any other use gets a cast from float32 back to the old type.

    Attributes:
        refused: Types by ONNX's names in small letters, e.g. ``uint8``.
    """

    refused: tuple[str, ...] = ("uint8",)
    name: str = "input_types"
    requires: tuple[str, ...] = ()
    optional: bool = False
    tolerance: Tolerance = ROUNDED

    def apply(self, model: ir.Model, context: RewriteContext) -> PassResult:
        """Retype the inputs."""
        changed = []
        for value in model.graph.inputs:
            dtype = value.dtype
            if dtype is None or dtype.name.lower() not in self.refused:
                continue
            value.type = ir.TensorType(ir.DataType.FLOAT)
            for node, index in list(value.uses()):
                if _casts_to_float(node):
                    Patch(node).replace(node.outputs[0], value)
                else:
                    back = Patch(node).op("Cast", [value], {"to": int(dtype)})
                    back.type = ir.TensorType(dtype)
                    node.replace_input_with(index, back)
            changed.append(f"input {value.name}: {dtype.name.lower()} becomes float32")
        if changed:
            remove_unused(model)
        return PassResult(model, bool(changed), tuple(changed))


def _casts_to_float(node: ir.Node) -> bool:
    return node.op_type == "Cast" and not node.domain and node.attributes["to"].as_int() == ir.DataType.FLOAT
