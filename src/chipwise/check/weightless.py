"""Weightless protos: a model's structure without its large weights, for tools that need a ModelProto."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import onnx
import onnx_ir as ir

# Smaller initializers stay in the proto: shape inference and converters read axes, shapes and scalars.
INLINE_BYTES = 4096

# Weights in memory are handed over by name, so nobody opens this.
_LOCATION = "weights-not-in-this-file"

# Types numpy holds as they are; others (4 bits, bfloat16, strings) stay in the proto unless they lie in a file.
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


@dataclass(frozen=True)
class Weightless:
    """A model without its large weights.

    Attributes:
        proto: The structure; large initializers are references.
        in_memory: Tensors, by name, whose reference leads nowhere: they must be handed over.
        in_files: Tensors, by name, whose reference leads to a file in ``folder``.
        folder: The folder of those files; None if there are none.
    """

    proto: onnx.ModelProto
    in_memory: dict[str, ir.TensorProtocol]
    in_files: dict[str, ir.TensorProtocol]
    folder: Path | None

    def restore(self, model: ir.Model) -> None:
        """Put the tensors back into a model that was made from the proto."""
        for name, tensor in {**self.in_memory, **self.in_files}.items():
            if name in model.graph.initializers:
                model.graph.initializers[name].const_value = tensor


def weightless(model: ir.Model) -> Weightless:
    """Take the large weights out of a copy of a model.

    Nothing is read or copied: a proto stays below 2 GiB whatever the model weighs, and memory-mapped weights stay on
    disk until someone uses them. Initializers that nothing uses are left out: ONNX Runtime drops them, and then misses
    them by name.
    """
    copy = model.clone()
    drop_unused_initializers(copy)
    in_memory: dict[str, ir.TensorProtocol] = {}
    in_files: dict[str, ir.TensorProtocol] = {}
    folder: Path | None = None
    for name, value in copy.graph.initializers.items():
        tensor = value.const_value
        if tensor is None:
            continue
        if tensor.nbytes <= INLINE_BYTES:
            if isinstance(tensor, ir.ExternalTensor):
                value.const_value = ir.Tensor(tensor.numpy(), tensor.dtype, name=name)
        elif isinstance(tensor, ir.ExternalTensor) and folder in (None, Path(tensor.base_dir)):
            folder = Path(tensor.base_dir)
            in_files[name] = tensor
        elif tensor.dtype in _MOVABLE:
            in_memory[name] = tensor
            value.const_value = _reference(tensor, name)
    return Weightless(ir.to_proto(copy), in_memory, in_files, folder)


def _reference(tensor: ir.TensorProtocol, name: str) -> ir.ExternalTensor:
    shape = ir.Shape(tensor.shape.numpy())
    return ir.ExternalTensor(_LOCATION, 0, tensor.nbytes, tensor.dtype, shape=shape, name=name, base_dir="")


def drop_unused_initializers(model: ir.Model) -> None:
    """Remove the initializers of the main graph that no node reads and that are neither inputs nor outputs.

    Nodes are visited, because a value also lists nodes that were taken out of the graph as its users.
    """
    graph = model.graph
    read = {value for node in ir.traversal.RecursiveGraphIterator(graph) for value in node.inputs}
    for name, value in list(graph.initializers.items()):
        if value not in read and not value.is_graph_input() and not value.is_graph_output():
            del graph.initializers[name]
