"""Graph borders: the inputs and outputs that a compiler leaves out, taken off the graph before it does."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from chipwise.check.foldable import foldable_nodes
from chipwise.errors import GraphError
from chipwise.report import Finding
from chipwise.rewrite.edit import remove_unused


def settle_borders(model: ir.Model) -> tuple[Finding, ...]:
    """Take off inputs that nothing reads and outputs that nothing computes, in place, and say so.

    A compiled graph has none of them, whatever the file said: a bundle that names them cannot be fed on the board.

    1. An input that no node reads, now that shapes are fixed and constants folded.
    2. An output that is an input as it is, or that depends on constants and shapes alone.

    Args:
        model: The graph after its rewrites.

    Raises:
        GraphError: Nothing is left to compute.
    """
    # Outputs first: an input that only went out as it came in is then read by nothing.
    found = [*_outputs(model)]
    if found:
        remove_unused(model)
    found += _inputs(model.graph)
    if not model.graph.outputs or not model.graph.inputs:
        raise GraphError(
            "no output depends on an input, so there is nothing to compute", where=str(model.graph.name),
            remedy="export the model with real inputs; keep a constant where it is used",
        )  # fmt: skip
    return tuple(found)


def _outputs(model: ir.Model) -> Iterator[Finding]:
    graph = model.graph
    folded = foldable_nodes(model)
    for value in list(graph.outputs):
        producer = value.producer()
        if producer is not None and producer not in folded:
            continue
        graph.outputs.remove(value)
        constant = producer is not None or value.is_initializer()
        yield Finding(
            rule="output_left_out",
            severity="warning",
            where=str(value.name),
            measured="a constant" if constant else "an input as it is",
            limit="what the chip computes",
            message=f"the compiled graph has no output {value.name}: it is {'constant' if constant else 'an input'}",
            remedy="keep its value where it is used",
        )


def _inputs(graph: ir.Graph) -> Iterator[Finding]:
    for value in list(graph.inputs):
        if value.uses() or value.is_graph_output():
            continue
        graph.inputs.remove(value)
        yield Finding(
            rule="input_left_out",
            severity="warning",
            where=str(value.name),
            measured="read by no node",
            limit="inputs that an output depends on",
            message=f"the compiled graph has no input {value.name}: nothing reads its values",
            remedy="leave it out when the graph is fed",
        )
