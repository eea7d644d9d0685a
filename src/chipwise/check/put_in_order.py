"""Puts a graph in order: forms that exporters write and that one tool or another stumbles over."""

from __future__ import annotations

import onnx_ir as ir


def put_in_order(model: ir.Model) -> None:
    """Write a graph in the form that every tool reads; what it computes stays the same.

    1. A weight that is listed among the inputs too, as old exporters do, is a weight.
    2. Of nodes with the same name, all but the first get another (ONNX Runtime refuses the model).
    3. An output without a name, with a named one behind it, gets one (ONNX Runtime crashes on such a Split).
    """
    graph = model.graph
    for value in [value for value in graph.inputs if value.name in graph.initializers]:
        graph.inputs.remove(value)
    roots: list[ir.Graph | ir.Function] = [graph, *model.functions.values()]
    _rename_nodes([node for root in roots for node in ir.traversal.RecursiveGraphIterator(root)])
    name_outputs(model)


def _rename_nodes(nodes: list[ir.Node]) -> None:
    taken = {node.name for node in nodes}
    seen: set[str] = set()
    for node in nodes:
        if node.name and node.name in seen:
            node.name = _fresh(node.name, taken)
        seen.add(node.name or "")


def name_outputs(model: ir.Model) -> None:
    """Give every output without a name, with a named one behind it, a name."""
    roots: list[ir.Graph | ir.Function] = [model.graph, *model.functions.values()]
    nodes = [node for root in roots for node in ir.traversal.RecursiveGraphIterator(root)]
    taken = {value.name for node in nodes for value in node.outputs}
    for node in nodes:
        named = [index for index, value in enumerate(node.outputs) if value.name]
        for value in node.outputs[: named[-1]] if named else ():
            if not value.name:
                value.name = _fresh(f"{node.outputs[named[-1]].name}/unused", taken)


def _fresh(name: str, taken: set[str | None]) -> str:
    number = 1
    while (found := f"{name}_{number}") in taken:
        number += 1
    taken.add(found)
    return found
