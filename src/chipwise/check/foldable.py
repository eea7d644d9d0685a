"""Foldable nodes: those that no run needs to compute once the shapes are fixed."""

from __future__ import annotations

import onnx_ir as ir

from chipwise.check.constants import constant_tensor

# Weights stay quantized, random numbers random, and branches read values that are not among their inputs.
_NEVER = frozenset(
    {"DequantizeLinear", "If", "Loop", "QuantizeLinear", "RandomNormal", "RandomUniform", "Scan", "SequenceMap"}
)
_ROOTS = frozenset({"Constant", "Shape", "Size"})


def foldable_nodes(model: ir.Model) -> set[ir.Node]:
    """Nodes that depend on constants and shapes alone, so constant folding takes them away when shapes are static."""
    gone: set[ir.Node] = set()
    for node in ir.traversal.RecursiveGraphIterator(model.graph):
        if node.domain not in ("", "ai.onnx") or node.op_type in _NEVER:
            continue
        if node.op_type in _ROOTS or (node.inputs and all(_is_known(value, gone) for value in node.inputs)):
            gone.add(node)
    return gone


def _is_known(value: ir.Value | None, gone: set[ir.Node]) -> bool:
    if value is None or constant_tensor(value) is not None:
        return True
    producer = value.producer()
    return producer is not None and producer in gone
