"""Operator schemas: which opset an operator needs, and whether an older one takes a node as it is written."""

from __future__ import annotations

import onnx
import onnx_ir as ir

# Operators whose meaning changed at an opset though a node may look the same before and after it:
# softmax's axis and flattening (13), names of modes (20), scale and bias a group or a channel (21).
_MEANING_CHANGED = {"Softmax": 13, "LogSoftmax": 13, "Hardmax": 13, "GridSample": 20, "GroupNormalization": 21}


def schema_of(op_type: str, opset: int) -> onnx.defs.OpSchema | None:
    """The schema of a standard operator at an opset, None if it does not exist there."""
    try:
        return onnx.defs.get_schema(op_type, max_inclusive_version=opset, domain="")
    except onnx.defs.SchemaError:
        return None


def is_standard(node: ir.Node) -> bool:
    """Whether a node is of ONNX's own domain."""
    return node.domain in ("", "ai.onnx")


def unchanged(node: ir.Node, source: int, target: int) -> bool:
    """Whether a node's operator is defined the same at both opsets."""
    old, new = schema_of(node.op_type, source), schema_of(node.op_type, target)
    return old is not None and new is not None and old.since_version == new.since_version


def survives(node: ir.Node, target: int) -> bool:
    """Whether a node's operator exists at the lower opset and means the same, if not written the same."""
    return schema_of(node.op_type, target) is not None and target >= _MEANING_CHANGED.get(node.op_type, 0)


def accepted(node: ir.Node, source: int, target: int) -> bool:
    """Whether the lower opset takes a node as it is: same meaning, known attributes, inputs and types."""
    schema = schema_of(node.op_type, target)
    if schema is None:
        return False
    if target < _MEANING_CHANGED.get(node.op_type, 0) <= source:
        return False
    if any(name not in schema.attributes for name in node.attributes):
        return False
    if any(attribute.required and name not in node.attributes for name, attribute in schema.attributes.items()):
        return False
    if not schema.min_input <= len(node.inputs) <= schema.max_input:
        return False
    if not schema.min_output <= len(node.outputs) <= schema.max_output:
        return False
    return _inputs_fit(node, schema)


def _inputs_fit(node: ir.Node, schema: onnx.defs.OpSchema) -> bool:
    """Whether every input is there that must be, and of a type the schema lists."""
    allowed = {c.type_param_str: set(c.allowed_type_strs) for c in schema.type_constraints}
    for index, value in enumerate(node.inputs):
        formal = schema.inputs[min(index, len(schema.inputs) - 1)]
        if value is None:
            if formal.option != onnx.defs.OpSchema.FormalParameterOption.Optional:
                return False
            continue
        types = allowed.get(formal.type_str, {formal.type_str})
        if value.dtype is not None and f"tensor({_onnx_name(value.dtype)})" not in types:
            return False
    return True


def _onnx_name(dtype: ir.DataType) -> str:
    return "float" if dtype == ir.DataType.FLOAT else dtype.name.lower()
