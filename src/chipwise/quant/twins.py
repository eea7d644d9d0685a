"""Twins: the values of two graphs of one decoder that stand for the same thing."""

from __future__ import annotations

import onnx_ir as ir

from chipwise.errors import RewriteError
from chipwise.model.decoder import names
from chipwise.quant.calibration import Ranges
from chipwise.quant.emulate import stored_origins, stored_values

_PAST = "past."


def twins(model: ir.Model, other: ir.Model) -> dict[str, str]:
    """For each computed value of a decoder's graph the name of its twin in another graph of the same decoder.

    Prefill and decode, static and dynamic graphs compute the same from ``input_ids`` on, in the same order. They differ
    in where positions and masks come from, and in the cache that decode puts in front of the new keys: the twin of
    both together is that of the new ones. Both graphs' functions must be inlined.

    Args:
        model: The graph whose values are asked for.
        other: The graph that has the twins.

    Raises:
        RewriteError: The graphs are not of the same decoder.
    """
    ours, theirs = _steps(model.graph), _steps(other.graph)
    if [node.op_type for node in ours] != [node.op_type for node in theirs]:
        raise RewriteError("two graphs of one decoder compute different things", where=str(model.graph.name))
    found = {
        str(mine.name): str(yours.name)
        for node, twin in zip(ours, theirs, strict=True)
        for mine, yours in zip(node.outputs, twin.outputs, strict=True)
    }
    for node in model.graph:
        if _joins_past(node):
            new = next(value for value in node.inputs if value is not None and not _is_past(value))
            found[str(node.outputs[0].name)] = found[str(new.name)]
    return found


def cache_twins(model: ir.Model) -> dict[str, str]:
    """The cache input of each layer by the name of the output that fills it, e.g. ``past.0.key: present.0.key``."""
    inputs = [str(value.name) for value in model.graph.inputs if _is_past(value)]
    return {name: f"present.{name.removeprefix(_PAST)}" for name in inputs}


def twin_ranges(model: ir.Model, calibrated: ir.Model, ranges: Ranges) -> Ranges:
    """The ranges of a graph's stored values, from those of another graph of the same decoder.

    A cache input has the range, and so the scale, of the keys or values that fill it: what prefill stored, decode reads
    as it is.

    Args:
        model: The graph.
        calibrated: The graph that was calibrated.
        ranges: The ranges of its stored values.

    Raises:
        RewriteError: The graphs are not of the same decoder, or a value was not calibrated.
    """
    known, origins, caches = twins(model, calibrated), stored_origins(calibrated), cache_twins(model)
    found: Ranges = {}
    for name in stored_values(model):
        twin = caches.get(name) or known.get(name, name)
        twin = origins.get(twin, twin)
        if twin not in ranges:
            raise RewriteError(f"{twin} was not calibrated", where=f"value {name}")
        found[name] = ranges[twin]
    return found


def _steps(graph: ir.Graph) -> list[ir.Node]:
    """The nodes that work on tokens, without those that join the cache to the new keys."""
    reached = {value for value in graph.inputs if value.name == names.INPUT_IDS}
    found = []
    for node in graph:
        if reached.isdisjoint(value for value in node.inputs if value is not None):
            continue
        reached.update(node.outputs)
        if not _joins_past(node):
            found.append(node)
    return found


def _joins_past(node: ir.Node) -> bool:
    return node.op_type == "Concat" and any(value is not None and _is_past(value) for value in node.inputs)


def _is_past(value: ir.Value) -> bool:
    return value.is_graph_input() and str(value.name).startswith(_PAST)
