"""GraphTrial: one recipe of a graph that is no decoder, compared with the float graph on samples held out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from chipwise.build.compared_outputs import add_floats, compare_outputs
from chipwise.build.compiled_graph import CompiledGraph
from chipwise.build.graph_file import GraphFile
from chipwise.build.graph_gate import GraphThresholds, judge_graph
from chipwise.build.samples import Samples
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
        equal: Share of equal values of each output that holds integers, over all samples.
    """

    recipe: Recipe
    candidate: GraphFile | CompiledGraph
    outputs: tuple[LayerCosine, ...]
    layers: tuple[LayerCosine, ...]
    samples: int
    verdicts: tuple[Verdict, ...]
    findings: tuple[Finding, ...] = ()
    equal: Mapping[str, float] = field(default_factory=dict)

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
        said = f"gate passed on {self.samples} samples"
        if self.outputs:
            worst = min(self.outputs, key=lambda one: one.whole)
            said += f", worst output cosine {worst.whole:.5f} ({worst.name})"
        if self.equal:
            name = min(self.equal, key=self.equal.__getitem__)
            said += f", {self.equal[name]:.1%} of integers equal ({name})"
        return said


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
        found = compare_outputs(reference, others, samples.held_out, threads, progress)
    finally:
        theirs.close()
    layers: tuple[LayerCosine, ...] = ()
    findings: tuple[Finding, ...] = ()
    if candidate is not reference:
        layers = _layers(reference, candidate, samples.held_out[:_LAYER_SAMPLES], threads)
        if candidate.ranges is not None and candidate.ranges.ranges:
            findings = candidate.ranges.findings(samples.held_out[:RANGE_SAMPLES], threads=threads)
    verdicts = judge_graph(found, thresholds)
    return GraphTrial(recipe, candidate, found.outputs, layers, len(samples.held_out), verdicts, findings, found.equal)


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
        add_floats(sums, one, other)
    return tuple(total.result(name) for name, total in sums.items())
