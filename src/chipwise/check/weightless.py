"""Weightless protos: a model's structure without its large weights, for tools that need a ModelProto."""

from __future__ import annotations

import onnx
import onnx_ir as ir

# Smaller initializers stay in the proto: shape inference and converters read axes, shapes and scalars.
INLINE_BYTES = 4096

# Weights are handed over by name, so nobody opens this.
_LOCATION = "weights-not-in-this-file"

# Types numpy holds as they are; others (4 bits, bfloat16, strings) stay in the proto.
_MOVABLE = frozenset(
    {
        ir.DataType.FLOAT,
        ir.DataType.DOUBLE,
        ir.DataType.FLOAT16,
        ir.DataType.INT8,
        ir.DataType.UINT8,
        ir.DataType.INT16,
        ir.DataType.UINT16,
        ir.DataType.INT32,
        ir.DataType.INT64,
        ir.DataType.BOOL,
    }
)


def weightless_proto(model: ir.Model) -> tuple[onnx.ModelProto, dict[str, ir.TensorProtocol]]:
    """The model as a proto whose large initializers are references, and those initializers' tensors by name.

    Nothing is read or copied: a proto stays below 2 GiB whatever the model weighs, and memory-mapped weights stay on
    disk until someone uses them. Initializers that nothing uses are left out: ONNX Runtime drops them, and then misses
    them by name.
    """
    copy = model.clone()
    drop_unused_initializers(copy)
    moved: dict[str, ir.TensorProtocol] = {}
    for name, value in copy.graph.initializers.items():
        tensor = value.const_value
        if tensor is None:
            continue
        if tensor.nbytes <= INLINE_BYTES or tensor.dtype not in _MOVABLE:
            if isinstance(tensor, ir.ExternalTensor):
                # A proto has no folder that a relative path could start from.
                value.const_value = ir.Tensor(tensor.numpy().copy(), dtype=tensor.dtype, name=name)
            continue
        moved[name] = tensor
        value.const_value = ir.ExternalTensor(
            _LOCATION,
            0,
            tensor.nbytes,
            tensor.dtype,
            shape=ir.Shape(tensor.shape.numpy()),
            name=name,
            base_dir="",
        )
    return ir.to_proto(copy), moved


def drop_unused_initializers(model: ir.Model) -> None:
    """Remove the initializers of the main graph that no node reads and that are neither inputs nor outputs.

    Nodes are visited, because a value also lists nodes that were taken out of the graph as its users.
    """
    graph = model.graph
    read = {value for node in ir.traversal.RecursiveGraphIterator(graph) for value in node.inputs}
    for name, value in list(graph.initializers.items()):
        if value not in read and not value.is_graph_input() and not value.is_graph_output():
            del graph.initializers[name]


def restore_weights(model: ir.Model, moved: dict[str, ir.TensorProtocol]) -> None:
    """Put the tensors of ``weightless_proto`` back into a model read from its proto."""
    for name, tensor in moved.items():
        if name in model.graph.initializers:
            model.graph.initializers[name].const_value = tensor
