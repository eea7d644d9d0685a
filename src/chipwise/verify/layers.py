"""Layer cosines: two graphs run side by side, compared at the values inside that bear the same name. Host side only."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt
import onnx_ir as ir
from google.protobuf.message import DecodeError

from chipwise.errors import EngineError, GraphError
from chipwise.report.report import LayerCosine
from chipwise.rewrite.runner import Runner
from chipwise.verify.cosine import ChannelCosine

Feed = Mapping[str, npt.NDArray[Any]]

# What the decoder writer calls the residual stream after a layer, and what attention and feed-forward add to it.
_LAYER_VALUE = re.compile(r"layers\.(\d+)\.(attn_out|mlp_out|output)")
_PLACE = {"attn_out": 0, "mlp_out": 1, "output": 2}


def layer_values(model: ir.Model) -> list[str]:
    """The layer values of a graph: layer by layer, attention, feed-forward, then the stream after both."""
    found = [_LAYER_VALUE.fullmatch(value.name or "") for node in model.graph for value in node.outputs]
    matches = sorted((m for m in found if m), key=lambda m: (int(m[1]), _PLACE[m[2]]))
    return [match[0] for match in matches]


def tap(model: ir.Model, names: Sequence[str], *, where: str = "the graph") -> None:
    """Make values inside a graph outputs, behind those it has.

    Raises:
        GraphError: The graph computes no value of a name.
    """
    computed = {value.name: value for node in model.graph for value in node.outputs}
    for name in names:
        if name not in computed:
            raise GraphError(f"it computes no value named {name!r}", where=where)
        if computed[name] not in model.graph.outputs:
            model.graph.outputs.append(computed[name])


def layer_cosines(
    reference_path: Path,
    candidate_path: Path,
    feeds: Iterable[Feed],
    *,
    names: Sequence[str] | None = None,
    threads: int = 2,
) -> list[LayerCosine]:
    """Compare values inside two graphs, a channel at a time over all tokens of all feeds.

    The candidate runs on its own activations, so what an early layer lost shows in all that follow. The graphs run as
    written, without the runtime's own optimisation, their weights mapped from where they lie.

    Args:
        reference_path: The reference's ONNX file.
        candidate_path: The candidate's.
        feeds: Inputs by name, one entry a run, for both; a graph takes those it has. The last axis of a value is its
            channels.
        names: The values; None takes the layer values that both graphs have.
        threads: Threads of a run.

    Returns:
        One entry a value, in order; empty if the graphs share none or there are no feeds.

    Raises:
        GraphError: A file holds no ONNX graph, or lacks a value named.
        EngineError: The two differ in the shape of a value.
        InputError: A feed lacks an input.
        RewriteError: ONNX Runtime refuses a graph or fails on it.
    """
    ours, theirs = _load(reference_path), _load(candidate_path)
    if names is None:
        shared = set(layer_values(theirs))
        names = [name for name in layer_values(ours) if name in shared]
    if not names:
        return []
    tap(ours, names, where=str(reference_path))
    tap(theirs, names, where=str(candidate_path))
    reference = Runner(ours, threads=threads, label=str(reference_path))
    candidate = Runner(theirs, threads=threads, label=str(candidate_path))
    sums: dict[str, ChannelCosine] = {}
    for feed in feeds:
        one, other = _run(reference, feed, names), _run(candidate, feed, names)
        for name in names:
            if one[name].shape != other[name].shape:
                raise EngineError(f"{name} is {one[name].shape} in the reference, {other[name].shape} in the candidate")
            sums.setdefault(name, ChannelCosine(one[name].shape[-1])).add(one[name], other[name])
    return [total.result(name) for name, total in sums.items()]


def _load(path: Path) -> ir.Model:
    try:
        return ir.load(path)
    except OSError as e:
        raise GraphError(f"cannot read ({e.strerror})", where=str(path)) from e
    except DecodeError as e:
        raise GraphError(f"not an ONNX file ({e})", where=str(path)) from e


def _run(runner: Runner, feed: Feed, names: Sequence[str]) -> dict[str, npt.NDArray[Any]]:
    known = set(runner.input_names)
    return runner.run({name: array for name, array in feed.items() if name in known}, names)
