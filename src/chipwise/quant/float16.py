"""Half precision: weights stored in float16 and computed with in float32, as a host without half arithmetic can."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from chipwise.check.weightless import drop_unused_initializers
from chipwise.errors import RewriteError
from chipwise.model.decoder import names
from chipwise.model.scheme import FLOAT16, TensorScheme

_LARGEST = float(np.finfo(np.float16).max)
_SMALL = 1024


def store_float16(model: ir.Model) -> dict[str, TensorScheme]:
    """Round every floating-point weight through float16, in place. Numbers that stand alone stay as they are.

    Returns:
        The scheme of each weight by its name.

    Raises:
        RewriteError: When the weight is read: it is beyond 65504, the largest float16.
    """
    graph = model.graph
    schemes = store_table_float16(model)
    for name, value in list(graph.initializers.items()):
        tensor = value.const_value
        if tensor is None or tensor.dtype != ir.DataType.FLOAT or tensor.size < 2 or value.is_graph_input():
            continue
        users = list(value.uses())
        first = next((node for node in graph if any(node is user for user, _ in users)), None)
        if first is None:
            continue
        half = _half(graph, name, tensor)
        cast = ir.node("Cast", [half], {"to": ir.DataType.FLOAT})
        cast.outputs[0].name = f"{name}.dense"
        cast.outputs[0].type, cast.outputs[0].shape = value.type, value.shape
        graph.insert_before(first, cast)
        for user, index in users:
            user.replace_input_with(index, cast.outputs[0])
        schemes[name] = FLOAT16
    drop_unused_initializers(model)
    return schemes


def store_table_float16(model: ir.Model) -> dict[str, TensorScheme]:
    """Let a decoder look its embeddings up in a float16 table, in place.

    Chips leave the look-up to the CPU. An output layer that shares the weight keeps its own.

    Returns:
        The scheme of the table by its name, ``model.embed_tokens.weight.table``; empty if the graph looks nothing up.
    """
    graph = model.graph
    look_up = next((node for node in graph if node.op_type == "Gather" and _reads_embedding(node)), None)
    if look_up is None or look_up.inputs[0] is None or look_up.inputs[0].const_value is None:
        return {}
    table = _half(graph, f"{names.EMBEDDING}.table", look_up.inputs[0].const_value)
    picked = look_up.outputs[0]
    rows = ir.node("Gather", [table, look_up.inputs[1]], {"axis": 0}, name=look_up.name)
    cast = ir.node("Cast", [rows.outputs[0]], {"to": ir.DataType.FLOAT})
    rows.outputs[0].type = ir.TensorType(ir.DataType.FLOAT16)
    cast.outputs[0].type, cast.outputs[0].shape = ir.TensorType(ir.DataType.FLOAT), picked.shape
    graph.insert_after(look_up, [rows, cast])
    picked.replace_all_uses_with(cast.outputs[0])
    name = picked.name
    graph.remove(look_up, safe=True)
    cast.outputs[0].name = name
    drop_unused_initializers(model)
    return {str(table.name): FLOAT16}


def _reads_embedding(node: ir.Node) -> bool:
    table, ids = node.inputs[0], node.inputs[1]
    return table is not None and table.name == names.EMBEDDING and ids is not None and ids.name == names.INPUT_IDS


def _half(graph: ir.Graph, name: str, tensor: ir.TensorProtocol) -> ir.Value:
    """An initializer of the same numbers in float16, read when it is saved; it takes the name of what it replaces."""
    stored = f"{name}.packed" if name in graph.initializers else name

    def read() -> ir.TensorProtocol:
        values = tensor.numpy()
        largest = float(max(values.max(initial=0), -values.min(initial=0)))
        if largest > _LARGEST:
            raise RewriteError(
                f"a weight of {largest:.3g} is beyond float16's largest number, 65504", where=name,
                remedy="use fp32 or a recipe with scales",
            )  # fmt: skip
        return ir.tensor(values.astype(np.float16), name=stored)

    shape = ir.Shape(tensor.shape.numpy())
    # A small one is written into the graph by the library, which wraps what it raises: read it here.
    eager = tensor.size <= _SMALL
    half = read() if eager else ir.LazyTensor(read, ir.DataType.FLOAT16, shape, name=stored)
    value = ir.Value(name=stored, shape=shape, type=ir.TensorType(ir.DataType.FLOAT16), const_value=half)
    graph.register_initializer(value)
    return value
