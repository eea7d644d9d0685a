"""Scalar borders: inputs and outputs without dimensions get one of size 1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from chipwise.check.infer import infer_types
from chipwise.rewrite.edit import Patch
from chipwise.rewrite.pass_ import EXACT, PassResult, RewriteContext, Tolerance


@dataclass(frozen=True)
class ScalarBorders:
    """Give graph inputs and outputs of no dimension the shape ``[1]``; feed and read the same number.

    rknn-toolkit2 2.5.0 builds a graph with such an input and cannot run it; such an output comes back as ``[1]``.

    1. An input goes through a Squeeze to whatever reads it.
    2. An output goes through an Unsqueeze.
    3. Where the rank is not known, and where there are dimensions, nothing changes.
    """

    name: str = "scalar_borders"
    requires: tuple[str, ...] = ("fix_shapes",)
    optional: bool = False
    tolerance: Tolerance = EXACT

    def apply(self, model: ir.Model, context: RewriteContext) -> PassResult:
        """Reshape the borders."""
        graph = model.graph
        notes = []
        for value in graph.inputs:
            if _is_scalar(value) and value.uses():
                _squeeze(graph, value)
                notes.append(f"input {value.name} is [1]")
        for value in list(graph.outputs):
            producer = value.producer()
            if _is_scalar(value) and producer is not None and producer.graph is graph:
                patch = Patch.behind(producer)
                made = patch.op("Unsqueeze", [value, patch.constant(np.array([0], np.int64))])
                _swap_names(graph, value, made)
                notes.append(f"output {made.name} is [1]")
        if notes:
            infer_types(model)
        return PassResult(model, bool(notes), tuple(notes))


def _is_scalar(value: ir.Value) -> bool:
    return value.shape is not None and len(value.shape) == 0


def _squeeze(graph: ir.Graph, value: ir.Value) -> None:
    uses = list(value.uses())
    patch = Patch(graph[0])
    inner = patch.op("Squeeze", [value, patch.constant(np.array([0], np.int64))])
    inner.type, inner.shape = value.type, ir.Shape([])
    value.shape = ir.Shape([1])
    for node, index in uses:
        node.replace_input_with(index, inner)


def _swap_names(graph: ir.Graph, old: ir.Value, new: ir.Value) -> None:
    """Let the new value be the graph's output under the old one's name."""
    name = old.name
    old.name, new.name = f"{name}/scalar", name
    new.type, new.shape = old.type, ir.Shape([1])
    for index, output in enumerate(graph.outputs):
        if output is old:
            graph.outputs[index] = new
