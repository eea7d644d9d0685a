"""Precision gates: one graph in which each group of products can be switched between 8-bit and float activations.

To find out what 8 bits cost in each place takes a run a place. Built into the graph as inputs, the switches need one
graph and one copy of the weights for all of these runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from chipwise.errors import RewriteError
from chipwise.quant.affine import Affine, affine
from chipwise.quant.calibration import ValueRange
from chipwise.quant.pairs import add_initializer
from chipwise.quant.product_groups import ProductGroup

GATES = "precision_gates"
"""The input float32 ``[groups]``: 1 computes a group with 8-bit inputs and outputs, 0 in floating point."""


def gated_values(groups: Sequence[ProductGroup]) -> list[str]:
    """Names of the values that must be calibrated: what the groups read and compute."""
    return list(dict.fromkeys(name for group in groups for name in (group.value, *group.outputs)))


def add_precision_gates(model: ir.Model, groups: Sequence[ProductGroup], ranges: Mapping[str, ValueRange]) -> None:
    """Give a graph the input ``precision_gates``, in place.

    What a group reads and computes becomes ``x + gate * (x in 8 bits - x)``. Everything else, weights too, stays in
    floating point.

    Args:
        model: The graph.
        groups: Its groups; each has the gate of its place.
        ranges: The range of each of ``gated_values``.

    Raises:
        RewriteError: A value has no range.
    """
    graph = model.graph
    gates = ir.Value(name=GATES, shape=ir.Shape([len(groups)]), type=ir.TensorType(ir.DataType.FLOAT))
    graph.inputs.append(gates)
    values = {str(value.name): value for node in graph for value in node.outputs}
    values |= {str(value.name): value for value in graph.inputs}
    for place, group in enumerate(groups):
        gate = _gate(graph, gates, place)
        products = {values[name].producer() for name in group.outputs}
        read = values[group.value]
        uses = [(node, i) for node, i in read.uses() if node in products and i == 0]
        _switch(graph, read, gate, _scale(ranges, group.value), uses)
        for name in group.outputs:
            value = values[name]
            # A product right behind this one reads what is stored of it.
            values[name] = _switch(graph, value, gate, _scale(ranges, name), list(value.uses()))
            if value.is_graph_output():
                _keep_output_name(graph, value, values[name])


def _gate(graph: ir.Graph, gates: ir.Value, place: int) -> ir.Value:
    index = add_initializer(graph, f"{GATES}.{place}", np.array(place, np.int64))
    node = ir.node("Gather", [gates, index], {"axis": 0})
    node.outputs[0].type = ir.TensorType(ir.DataType.FLOAT)
    first = next(iter(graph))
    graph.insert_before(first, node)
    return node.outputs[0]


def _scale(ranges: Mapping[str, ValueRange], name: str) -> Affine:
    if name not in ranges:
        raise RewriteError("it was not calibrated", where=f"value {name}")
    return affine(ranges[name].low, ranges[name].high)


def _switch(
    graph: ir.Graph, value: ir.Value, gate: ir.Value, scale: Affine, uses: Sequence[tuple[ir.Node, int]]
) -> ir.Value:
    """Let some users of a value read what its gate leaves of it, which is returned."""
    prefix = f"{GATES}.{len(graph.initializers)}"
    parts = [
        add_initializer(graph, f"{prefix}.scale", np.asarray(scale.scale)),
        add_initializer(graph, f"{prefix}.zero_point", np.array(scale.zero_point, scale.dtype)),
    ]
    quantize = ir.node("QuantizeLinear", [value, *parts])
    dequantize = ir.node("DequantizeLinear", [quantize.outputs[0], *parts])
    change = ir.node("Sub", [dequantize.outputs[0], value])
    share = ir.node("Mul", [change.outputs[0], gate])
    switched = ir.node("Add", [value, share.outputs[0]])
    nodes = [quantize, dequantize, change, share, switched]
    for node in nodes[1:]:
        node.outputs[0].type, node.outputs[0].shape = ir.TensorType(ir.DataType.FLOAT), value.shape
    producer = value.producer()
    if producer is not None:
        graph.insert_after(producer, nodes)
    else:
        graph.insert_before(uses[0][0], nodes)
    for user, index in uses:
        user.replace_input_with(index, switched.outputs[0])
    return switched.outputs[0]


def _keep_output_name(graph: ir.Graph, value: ir.Value, switched: ir.Value) -> None:
    name = value.name
    for index, output in enumerate(graph.outputs):
        if output is value:
            graph.outputs[index] = switched
    value.name, switched.name = f"{name}.float", name
