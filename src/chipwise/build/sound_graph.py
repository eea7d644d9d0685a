"""A graph is run as it came, before anything is built from it: what is wrong with it is then said as that."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from chipwise.build.samples import Samples
from chipwise.errors import GraphError, InputError, RewriteError
from chipwise.rewrite.runner import Runner


def require_sound(graph: ir.Model, samples: Samples, *, where: str, threads: int) -> None:
    """Run a graph, and look at what comes out; once, unless that is all zeros.

    Args:
        graph: The graph as it came.
        samples: Its samples.
        where: The file, for messages.
        threads: Threads of the run.

    Raises:
        GraphError: ONNX Runtime does not load the graph, or it computes NaN.
        InputError: It does not run on a sample, or every output is zero on all that are held out.
    """
    kind = "drawn sample" if samples.drawn else "sample"
    real = "give real inputs with --samples" if samples.drawn else "give inputs that it was made for"
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
            raise InputError(e.what, where=where, remedy=real) from e
        floats = {name: array for name, array in outputs.items() if array.dtype.kind == "f"}
        wrong = next((name for name, array in floats.items() if np.isnan(array).any()), None)
        if wrong is not None:
            raise GraphError(
                f"in float32 its output {wrong} is NaN on a {kind}, so nothing can be compared with it",
                where=where, remedy=f"look for weights that are NaN, or {real}",
            )  # fmt: skip
        if any(np.asarray(array).any() for array in outputs.values()):
            return
    raise InputError(
        f"every output is zero on each of {len(samples.held_out)} {kind}s, so any file would pass as equal",
        where=where, remedy=real,
    )  # fmt: skip
