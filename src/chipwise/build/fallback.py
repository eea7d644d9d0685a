"""The fallback: the model in plain floating point on the CPU, to go on where a bundle's engine computes nonsense."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from chipwise.build.graph_files import ENGINE, GraphFiles
from chipwise.build.graphs import CpuGraphs
from chipwise.build.stored import WEIGHTS, relocate
from chipwise.build.texts import Texts
from chipwise.bundle import BundleWriter, EngineSpec, Fallback, SelfTest, record_self_test
from chipwise.bundle.manifest import FALLBACK_PREFIX
from chipwise.errors import ModelFormatError
from chipwise.files import writing
from chipwise.model.config import DecoderConfig
from chipwise.model.model import Model
from chipwise.target import Target

Precision = Literal["fp16", "fp32"]

_SELF_TEST_TOKENS = 8


@dataclass(frozen=True)
class BuiltFallback:
    """A fallback on disk.

    Attributes:
        precision: How its weights are stored.
        graphs: Its graph and weights.
        self_test: What it says to the shortest prompt.
    """

    precision: Precision
    graphs: GraphFiles
    self_test: SelfTest


def build_fallback(
    precision: Precision,
    model: Model,
    config: DecoderConfig,
    texts: Texts,
    context: int,
    folder: Path,
    *,
    target: Target,
    threads: int,
) -> BuiltFallback:
    """Write the fused decoder for ONNX Runtime, in a folder of its own, and run it once.

    In float16 only the weights are stored so; they are computed with in float32, as most CPUs do.

    Args:
        precision: How weights are stored.
        model: The model as it was given.
        config: Its architecture.
        texts: Where the prompt of the self-test is from.
        context: Tokens that the graph can name.
        folder: Where the build keeps its files.
        target: What is built for.
        threads: Threads of a run; 0 for one a core.

    Raises:
        ModelFormatError: The model has no weights.
        RewriteError: A weight is beyond float16's largest number.
        OutputError: The disk does not take it.
        BundleError: Its logits are of no use.
    """
    if model.weights is None:
        raise ModelFormatError("no weights", where=str(model.source.path))
    place = folder / "fallback"
    with writing(place):
        place.mkdir()
    graphs = CpuGraphs(config, model.weights, context, place, target=target, threads=threads).floating(precision)
    prompt = min((prompt.tokens for prompt in texts.prompts), key=len)
    room = min(_SELF_TEST_TOKENS, context - len(prompt))
    session = graphs.open(n_slots=1, max_context=len(prompt) + room, threads=threads)
    try:
        return BuiltFallback(precision, graphs, record_self_test(session, prompt, max_tokens=room))
    finally:
        session.close()


def add_fallback(writer: BundleWriter, built: BuiltFallback) -> Fallback:
    """Put it into a bundle, behind a prefix of its roles; what the manifest says of it.

    Raises:
        OutputError: The disk does not take it.
    """
    graphs = built.graphs
    stored = writer.add_file(FALLBACK_PREFIX + WEIGHTS, graphs.weights, ".bin")
    for role, graph in graphs.files.items():
        relocate(graph, stored, {})
        writer.add_file(FALLBACK_PREFIX + role, graph, ".onnx")
    # Its threads wait for the next step asleep: most of the time there is none.
    return Fallback(EngineSpec(ENGINE, {**graphs.options, "yields": True}), built.precision, built.self_test)
