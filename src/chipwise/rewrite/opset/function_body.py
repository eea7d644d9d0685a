"""Function bodies: operators that ONNX itself defines by simpler ones, written out."""

from __future__ import annotations

from typing import Any

import onnx
import onnx_ir as ir

from chipwise.check.opset_schema import accepted, schema_of
from chipwise.rewrite.edit import all_nodes, inline_functions

# Bodies are put under a domain of their own while they are inlined, so that no standard operator matches them.
_DOMAIN = "chipwise.body"


def expand(model: ir.Model, nodes: list[ir.Node], opset: int) -> list[str]:
    """Write out nodes by their operators' definitions, in place.

    Args:
        model: The model, of opset ``opset``.
        nodes: Nodes of it to write out.
        opset: The opset the nodes are read at.

    Returns:
        The operators written out; those without a definition stay.
    """
    expanded: list[str] = []
    for number, node in enumerate(nodes):
        body = _body(node, opset)
        if body is None:
            continue
        body.domain, body.name = _DOMAIN, f"{node.op_type}_{number}"
        function = ir.serde.deserialize_function(body)
        written = function.opset_imports.get("", opset)
        if not all(accepted(inner, written, opset) for inner in function):
            continue
        function.opset_imports[""] = opset
        model.functions[function.identifier()] = function
        expanded.append(node.op_type)
        node.domain, node.op_type = _DOMAIN, body.name
    if expanded:
        model.graph.opset_imports[_DOMAIN] = 1
        inline_functions(model)
        for node in all_nodes(model):
            node.version = None
    return expanded


def _body(node: ir.Node, opset: int) -> onnx.FunctionProto | None:
    """The definition of a node's operator at an opset; None if it has none, or is of unknown input types."""
    # onnx's type stubs do not know the members about functions.
    schema: Any = schema_of(node.op_type, opset)
    if schema is None:
        return None
    _say_defaults(node, schema)
    proto = ir.to_proto(node)
    if schema.has_function:
        version = max(v for v in schema.function_opset_versions if v <= opset)
        found = schema.get_function_with_opset_version(version)
    elif schema.has_context_dependent_function:
        types = [_type(value) for value in node.inputs]
        if any(one is None for one in types):
            return None
        version = max(v for v in schema.context_dependent_function_opset_versions if v <= opset)
        found = schema.get_context_dependent_function_with_opset_version(
            version, proto.SerializeToString(), [one for one in types if one is not None]
        )
    else:
        return None
    body: onnx.FunctionProto = onnx.FunctionProto.FromString(found)
    if not body.node:
        return None
    # ONNX lists optional outputs that the body, made for this node, does not compute.
    made = {name for one in body.node for name in one.output}
    outputs = [name for name in body.output if name in made]
    del body.output[:]
    body.output.extend(outputs)
    return body


def _say_defaults(node: ir.Node, schema: onnx.defs.OpSchema) -> None:
    """Write the defaults of attributes into a node: a body refers to them, and does not know them."""
    for name, attribute in schema.attributes.items():
        default = attribute.default_value
        if name not in node.attributes and default.type != onnx.AttributeProto.UNDEFINED:
            node.attributes[name] = ir.serde.deserialize_attribute(default)


def _type(value: ir.Value | None) -> bytes | None:
    if value is None:
        return bytes(onnx.TypeProto().SerializeToString())
    if value.dtype is None:
        return None
    # Some bodies depend on the rank (RotaryEmbedding).
    shape = None if value.shape is None else [dim if isinstance(dim, int) else None for dim in value.shape]
    return bytes(onnx.helper.make_tensor_type_proto(int(value.dtype), shape).SerializeToString())
