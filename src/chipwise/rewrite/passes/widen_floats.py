"""Widen floats: a model stored in 16-bit floats becomes float32, which toolchains and quantizers start from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from chipwise.check.infer import infer_types
from chipwise.rewrite.edit import all_nodes, inline_functions, lift_constants
from chipwise.rewrite.pass_ import PassResult, RewriteContext, Tolerance

_NARROW = frozenset({ir.DataType.FLOAT16, ir.DataType.BFLOAT16})
_FLOAT = ir.DataType.FLOAT

# What 16-bit arithmetic itself is off by.
_TOLERANCE = Tolerance(max_rel=2e-2, max_abs=1e-3)


@dataclass(frozen=True)
class WidenFloats:
    """Make every float16 and bfloat16 value float32. Inputs and outputs change their type too.

    1. Initializers are converted when they are read, one at a time: the model is never in memory twice.
    2. Casts to 16 bits cast to float32 instead; constants in attributes and the ``dtype`` of generators follow.
    3. Graph inputs and outputs become float32; feed the same numbers.
    4. A model without 16-bit floats stays.
    """

    name: str = "widen_floats"
    requires: tuple[str, ...] = ()
    optional: bool = True
    tolerance: Tolerance = _TOLERANCE

    def apply(self, model: ir.Model, context: RewriteContext) -> PassResult:
        """Widen values, initializers and attributes."""
        inline_functions(model)
        lift_constants(model)
        infer_types(model)
        widened = [_widen_initializer(v) for graph in model.graphs() for v in graph.initializers.values()]
        others = [_widen_value(value) for value in model.graph.inputs]
        for node in all_nodes(model):
            others += [_widen_attribute(node, attribute) for attribute in list(node.attributes.values())]
            others += [_widen_value(value) for value in node.outputs]
        if not any(widened) and not any(others):
            return PassResult(model, False)
        return PassResult(model, True, (f"{sum(widened)} initializers in 16-bit floats become float32",))


def _widen_value(value: ir.Value) -> bool:
    if value.dtype not in _NARROW:
        return False
    value.type = ir.TensorType(_FLOAT)
    return True


def _widen_initializer(value: ir.Value) -> bool:
    tensor = value.const_value
    if tensor is None or tensor.dtype not in _NARROW:
        return False
    value.const_value = widened(tensor)
    value.type = ir.TensorType(_FLOAT)
    return True


def _widen_attribute(node: ir.Node, attribute: ir.Attr) -> bool:
    if attribute.is_ref():
        return False
    if attribute.type == ir.AttributeType.TENSOR and attribute.as_tensor().dtype in _NARROW:
        node.attributes[attribute.name] = ir.AttrTensor(attribute.name, widened(attribute.as_tensor()))
        return True
    if attribute.name in ("to", "dtype") and attribute.type == ir.AttributeType.INT and attribute.value in _NARROW:
        node.attributes[attribute.name] = ir.AttrInt64(attribute.name, int(_FLOAT))
        return True
    return False


def widened(tensor: ir.TensorProtocol, target: ir.DataType = _FLOAT) -> ir.LazyTensor:
    """A tensor of another floating-point type, converted when it is read."""

    def convert() -> ir.TensorProtocol:
        return ir.tensor(np.asarray(tensor.numpy()).astype(target.numpy()), dtype=target, name=tensor.name)

    shape = ir.Shape(tensor.shape.numpy())
    return ir.LazyTensor(convert, dtype=target, shape=shape, name=tensor.name)
