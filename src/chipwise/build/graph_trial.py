"""GraphTrial: one recipe of a graph that is no decoder, compared with the float graph on samples held out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from chipwise.build.compiled_graph import CompiledGraph, Outputs
from chipwise.build.graph_file import GraphFile
from chipwise.build.graph_gate import GraphThresholds, judge_graph
from chipwise.build.samples import Samples
from chipwise.errors import EngineError
from chipwise.quant.calibration import Progress
from chipwise.quant.recipe import Recipe
from chipwise.report import Finding, Verdict
from chipwise.report.report import LayerCosine
from chipwise.rewrite.pass_ import Feed
from chipwise.rewrite.runner import Runner
from chipwise.verify.cosine import ChannelCosine
from chipwise.verify.layers import tap

_LAYER_SAMPLES = 4
_LAYERS = 64
RANGE_SAMPLES = 16
"""Held-out samples whose ranges are compared with calibration's."""
_PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul", "LayerNormalization")


@dataclass(frozen=True)
class GraphTrial:
    """A recipe and what verification said of it.

    Attributes:
        recipe: The recipe.
        candidate: Its graph, as an engine opens it or as the chip's toolkit compiled it.
        outputs: Cosines of each output over all samples.
        layers: Cosines of products inside; empty for the reference itself and for a compiled graph.
        samples: Samples compared.
        verdicts: What the gate says.
        findings: What calibration did not foresee, and what a compiler's log gives reason to tell.
    """

    recipe: Recipe
    candidate: GraphFile | CompiledGraph
    outputs: tuple[LayerCosine, ...]
    layers: tuple[LayerCosine, ...]
    samples: int
    verdicts: tuple[Verdict, ...]
    findings: tuple[Finding, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether every verdict passed."""
        return all(verdict.passed for verdict in self.verdicts)

    def headline(self) -> str:
        """The outcome in one line."""
        failed = [verdict.line() for verdict in self.verdicts if not verdict.passed]
        if failed:
            errors = [f"{one.message} ({one.where})" for one in self.findings if one.severity == "error"]
            return f"gate failed: {'; '.join([*failed, *errors])}"
        worst = min(self.outputs, key=lambda one: one.whole)
        return f"gate passed on {self.samples} samples, worst output cosine {worst.whole:.5f} ({worst.name})"


def run_graph_trial(
    recipe: Recipe,
    reference: GraphFile,
    candidate: GraphFile,
    samples: Samples,
    gate: Mapping[str, float],
    *,
    threads: int,
    progress: Progress,
) -> GraphTrial:
    """Run both graphs on the samples held out, as an engine runs them, and hold the outputs against the gate.

    Raises:
        EngineError: A runtime failed, or the graphs differ in an output.
        InputError: A threshold is none.
    """
    thresholds = GraphThresholds.for_weight_bits(recipe.weight_bits).with_overrides(gate)
    theirs = candidate.open(threads)
    try:
        others = (theirs.run(feed) for feed in samples.held_out)
        outputs, nonfinite = compare_outputs(reference, others, samples.held_out, threads, progress)
    finally:
        theirs.close()
    layers: tuple[LayerCosine, ...] = ()
    findings: tuple[Finding, ...] = ()
    if candidate is not reference:
        layers = _layers(reference, candidate, samples.held_out[:_LAYER_SAMPLES], threads)
        if candidate.ranges is not None and candidate.ranges.ranges:
            findings = candidate.ranges.findings(samples.held_out[:RANGE_SAMPLES], threads=threads)
    verdicts = judge_graph(outputs, nonfinite, thresholds)
    return GraphTrial(recipe, candidate, outputs, layers, len(samples.held_out), verdicts, findings)


def compare_outputs(
    reference: GraphFile, others: Iterable[Outputs], feeds: Sequence[Feed], threads: int, progress: Progress
) -> tuple[tuple[LayerCosine, ...], int]:
    """Run the reference on each sample and compare it with what the candidate computed of it.

    Args:
        reference: The float graph.
        others: The candidate's outputs, as many as samples and in their order.
        feeds: The samples.
        threads: Threads of the reference.
        progress: Told after each sample.

    Returns:
        The cosines of each output over all samples, and how many samples gave a NaN or infinity.

    Raises:
        EngineError: The runtime failed, or an output is missing or of another shape.
    """
    ours = reference.open(threads)
    try:
        sums: dict[str, ChannelCosine] = {}
        nonfinite = 0
        for done, (feed, other) in enumerate(zip(feeds, others, strict=True), start=1):
            nonfinite += not _finite(other)
            _add(sums, ours.run(feed), other)
            progress(done, len(feeds))
    finally:
        ours.close()
    return tuple(total.result(name) for name, total in sums.items()), nonfinite


def _layers(reference: GraphFile, candidate: GraphFile, feeds: Sequence[Feed], threads: int) -> tuple[LayerCosine, ...]:
    """Cosines of the products that both graphs compute under the same name, each on its own activations."""
    models = [ir.load(graph.path) for graph in (reference, candidate)]
    computed = {value.name for node in models[1].graph for value in node.outputs}
    outputs = {value.name for value in models[0].graph.outputs}
    names = [str(node.outputs[0].name) for node in models[0].graph if node.op_type in _PRODUCTS]
    names = [name for name in names if name in computed and name not in outputs]
    # As many as a plot can show, spread over the graph.
    names = names[:: -(-len(names) // _LAYERS) or 1]
    if not names:
        return ()
    for model, graph in zip(models, (reference, candidate), strict=True):
        tap(model, names, where=str(graph.path))
        for value in model.graph.outputs:
            value.dtype = value.dtype or ir.DataType.FLOAT
    runners = [Runner(model, threads=threads, label="the graph with its layers exposed") for model in models]
    sums: dict[str, ChannelCosine] = {}
    for feed in feeds:
        one, other = (runner.run(feed, names) for runner in runners)
        _add(sums, one, other)
    return tuple(total.result(name) for name, total in sums.items())


def _add(sums: dict[str, ChannelCosine], one: Mapping[str, Any], other: Mapping[str, Any]) -> None:
    for name, value in one.items():
        if name not in other or np.shape(other[name]) != np.shape(value):
            raise EngineError("the candidate's output is missing or of another shape", where=f"output {name}")
        if np.asarray(value).dtype.kind == "f":
            reference, candidate = _channels_last(value), _channels_last(other[name])
            sums.setdefault(name, ChannelCosine(reference.shape[-1])).add(reference, candidate)


def _channels_last(value: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Images have their channels on axis 1, all else on the last."""
    if value.ndim >= 4:
        return np.moveaxis(value, 1, -1)
    return value.reshape(1, 1) if value.ndim == 0 else value


def _finite(outputs: Mapping[str, npt.NDArray[Any]]) -> bool:
    return all(bool(np.isfinite(array).all()) for array in outputs.values())
