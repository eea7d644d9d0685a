"""A graph is run before anything is built from it: what is wrong with it is then said as that."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from chipwise.build.graph_file import GraphFile
from chipwise.build.samples import Samples
from chipwise.errors import GraphError, InputError, RewriteError
from chipwise.rewrite.runner import Runner


def require_sound(graph: ir.Model, samples: Samples, *, where: str, threads: int) -> None:
    """Run a graph as it came, and look at what comes out; once, unless that is all zeros.

    A NaN is no matter yet: a pass may cure it.

    Args:
        graph: The graph.
        samples: Its samples.
        where: The file, for messages.
        threads: Threads of the run.

    Raises:
        GraphError: ONNX Runtime does not load the graph.
        InputError: It does not run on a sample, or every output is zero on all that are held out.
    """
    try:
        runner = Runner(graph, threads=threads, label="the graph as it came")
    except RewriteError as e:
        raise GraphError(
            e.what, where=where, remedy="make it run in onnxruntime first: export it again, in opset 13 or newer"
        ) from e
    for feed in samples.held_out:
        try:
            outputs = runner.run({name: feed[name] for name in runner.input_names})
        except RewriteError as e:
            raise InputError(e.what, where=where, remedy=_real(samples)) from e
        if any(np.asarray(array).any() for array in outputs.values()):
            return
    raise InputError(
        f"every output is zero on each of {len(samples.held_out)} {_kind(samples)}s, so any file would pass as equal",
        where=where, remedy=_real(samples),
    )  # fmt: skip


def require_numbers(graph: GraphFile, samples: Samples, *, where: str, threads: int) -> None:
    """Run the rewritten float graph once: what is compared with it must be numbers.

    Args:
        graph: The graph.
        samples: Its samples.
        where: The file it came from, for messages.
        threads: Threads of the run.

    Raises:
        GraphError: An output holds NaN.
        EngineError: The runtime refuses the graph.
    """
    session = graph.open(threads)
    try:
        outputs = session.run(samples.held_out[0])
    finally:
        session.close()
    floats = {name: array for name, array in outputs.items() if np.asarray(array).dtype.kind == "f"}
    wrong = next((name for name, array in floats.items() if np.isnan(array).any()), None)
    if wrong is not None:
        raise GraphError(
            f"in float32 its output {wrong} is NaN on a {_kind(samples)}, so nothing can be compared with it",
            where=where, remedy=f"look for weights that are NaN, or {_real(samples)}",
        )  # fmt: skip


def _kind(samples: Samples) -> str:
    return "drawn sample" if samples.drawn else "sample"


def _real(samples: Samples) -> str:
    return "give real inputs with --samples" if samples.drawn else "give inputs that it was made for"
