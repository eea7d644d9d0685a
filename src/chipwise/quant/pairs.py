"""Pairs: QuantizeLinear and DequantizeLinear behind a value, so that its users see what 8 bits leave of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from chipwise.check.constants import constant_array
from chipwise.quant.affine import Affine
from chipwise.quant.calibration import ValueRange


def insert_pair(graph: ir.Graph, value: ir.Value, scale: Affine, *, users: Iterable[ir.Node] | None = None) -> None:
    """Let the users of a value read it back from its integers.

    If all shall, a graph output too, what they read takes the value's name, and the number before is ``NAME.float``;
    a graph input or a constant keeps its name.

    Args:
        graph: The graph.
        value: A computed value, a graph input or a constant.
        scale: The scale of its integers.
        users: Nodes that shall; None for all.
    """
    chosen = None if users is None else set(users)
    uses = [(node, index) for node, index in value.uses() if chosen is None or node in chosen]
    is_output = chosen is None and value.is_graph_output()
    if not uses and not is_output:
        return
    name, producer = str(value.name), value.producer()
    zero = np.array(scale.zero_point, scale.dtype)
    parts = [
        add_initializer(graph, f"{name}.scale", np.asarray(scale.scale)),
        add_initializer(graph, f"{name}.zero_point", zero),
    ]
    quantize = ir.node("QuantizeLinear", [value, *parts])
    dequantize = ir.node("DequantizeLinear", [quantize.outputs[0], *parts])
    quantize.outputs[0].name = f"{name}.int8"
    back = dequantize.outputs[0]
    back.name = f"{name}.stored"
    back.type, back.shape = ir.TensorType(ir.DataType.FLOAT), value.shape
    if producer is not None:
        graph.insert_after(producer, [quantize, dequantize])
    else:
        nodes = {node for node, _ in uses}
        graph.insert_before(next(node for node in graph if node in nodes), [quantize, dequantize])
    for user, index in uses:
        user.replace_input_with(index, back)
    if chosen is None and producer is not None:
        for index, output in enumerate(graph.outputs):
            if output is value:
                graph.outputs[index] = back
        value.name, back.name = f"{name}.float", name


def add_initializer(graph: ir.Graph, name: str, array: npt.NDArray[Any]) -> ir.Value:
    """Add a constant under a name of its own."""
    tensor = ir.tensor(array, name=name)
    value = ir.Value(name=name, shape=ir.Shape(array.shape), type=ir.TensorType(tensor.dtype), const_value=tensor)
    graph.register_initializer(value)
    return value


def pair_ranges(model: ir.Model) -> dict[str, ValueRange]:
    """The ranges that the scales of a quantized graph span, by the value they belong to."""
    found = {}
    for node in model.graph:
        if node.op_type != "QuantizeLinear" or any(value is None for value in node.inputs[:3]):
            continue
        value, scale, zero = (given for given in node.inputs[:3] if given is not None)
        step, middle = constant_array(scale), constant_array(zero)
        if step is None or middle is None or step.size != 1 or value.is_initializer():
            continue
        info = np.iinfo(middle.dtype)
        low, high = (float(step) * (end - int(middle)) for end in (info.min, info.max))
        found[str(value.name)] = ValueRange(low, high)
    return found
