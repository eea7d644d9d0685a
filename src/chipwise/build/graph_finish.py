"""The end of a graph's build: the report, and the bundle with everything that belongs to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from chipwise.build.finish import Made, command_line, not_compiled
from chipwise.build.graph_file import GraphFile
from chipwise.build.graph_files import ENGINE
from chipwise.build.graph_trial import GraphTrial
from chipwise.build.options import BuildOptions
from chipwise.build.samples import Samples
from chipwise.build.stored import WEIGHTS, relocate, sizes
from chipwise.bundle import BundleWriter, EngineSpec, GraphTest, Manifest, ModelInfo, TensorEntry, record_graph_test
from chipwise.bundle.manifest import GRAPH, TEST_INPUTS, TEST_OUTPUTS
from chipwise.model.model import Model
from chipwise.report import Finding
from chipwise.report.html import render_html
from chipwise.report.report import NotRun, Report, RewriteStep, Step
from chipwise.target import Target
from chipwise.target.host.machine import look
from chipwise.verify.environment import hardware

# Of an output's largest magnitude. Another processor rounds integers otherwise, by a few steps of 1/255 each.
_INTEGER_TOLERANCE = 0.05
_FLOAT_TOLERANCE = 0.005


@dataclass(frozen=True)
class GraphResult:
    """What a graph's build came to.

    Attributes:
        target: The target.
        model: The model.
        samples: What it was calibrated and verified on.
        findings: What the checks found.
        rewrites: What was rewritten, and the proofs.
        trials: The recipes tried; the last one is kept.
    """

    target: Target
    model: Model
    samples: Samples
    findings: tuple[Finding, ...]
    rewrites: tuple[RewriteStep, ...]
    trials: Sequence[GraphTrial]

    @property
    def chosen(self) -> GraphTrial:
        """The recipe that is kept."""
        return self.trials[-1]

    @property
    def name(self) -> str:
        """The bundle's name; one that emulates a chip says so."""
        graph = self.chosen.candidate
        emulated = f"-{graph.emulates}-emulated" if graph.emulates else ""
        return f"{self.model.source.name}-{self.chosen.recipe.name}{emulated}"


def write_graph_bundle(options: BuildOptions, found: GraphResult, steps: Sequence[Step]) -> Made:
    """Put graph, weights, self-test and report into a bundle at ``options.out``.

    Raises:
        OutputError: The disk does not take it.
        BundleError: The candidate's outputs are all zero or not finite.
    """
    graph, source = found.chosen.candidate, found.model.source
    config = _described(ir.load(graph.path), found.model)
    test, inputs, outputs = _self_test(graph, found, options.threads)
    with BundleWriter(options.out, overwrite=options.overwrite) as writer:
        tensors: dict[str, TensorEntry] = {}
        if graph.weights is not None:
            stored = writer.add_file(WEIGHTS, graph.weights, ".bin")
            tensors = relocate(graph.path, stored, graph.schemes)
        writer.add_file(GRAPH, graph.path, ".onnx")
        writer.add_bytes(TEST_INPUTS, inputs, ".npz")
        writer.add_bytes(TEST_OUTPUTS, outputs, ".npz")
        if found.model.tokenizer:
            writer.add_tokenizer(found.model.tokenizer)
        report = _report(found, steps, tensors.values())
        writer.add_document("report.json", report.to_json())
        writer.add_document("report.html", render_html(report).encode())
        manifest = Manifest(
            name=found.name,
            target=found.target.name,
            engine=EngineSpec(ENGINE, dict(graph.options)),
            model=ModelInfo(config, source.kind, source.name, source.licence),
            graph_test=test,
            tensors=tensors,
            verdicts=found.chosen.verdicts,
        )
        path = writer.commit(manifest)
    return Made(path, report)


def _self_test(graph: GraphFile, found: GraphResult, threads: int) -> tuple[GraphTest, bytes, bytes]:
    floats = not found.chosen.recipe.integer_activations
    session = graph.open(threads)
    try:
        sample = found.samples.held_out[0]
        return record_graph_test(session, sample, tolerance=_FLOAT_TOLERANCE if floats else _INTEGER_TOLERANCE)
    finally:
        session.close()


def _described(graph: ir.Model, model: Model) -> dict[str, Any]:
    """What a user of the bundle must know of the graph."""
    return {
        "arch": model.config.arch if model.config else "graph",
        "inputs": {str(value.name): _shape(value) for value in graph.graph.inputs},
        "outputs": {str(value.name): _shape(value) for value in graph.graph.outputs},
    }


def _shape(value: ir.Value) -> list[int | str]:
    dims = value.shape.dims if value.shape is not None else ()
    return [dim if isinstance(dim, int) else str(dim.value or "?") for dim in dims]


def _report(found: GraphResult, steps: Sequence[Step], tensors: Iterable[TensorEntry]) -> Report:
    chosen, model, target = found.chosen, found.model, found.target
    emulated = f" (emulated on this machine, not compiled for {target.name})" if chosen.candidate.emulates else ""
    tried = "; ".join(f"{trial.recipe.name}: {trial.headline()}" for trial in found.trials)
    figures = {"figures": f"{target.name} emulated on this machine"} if chosen.candidate.emulates else {}
    return Report(
        title=f"{model.source.name} for {target.name}, {chosen.recipe.name}{emulated}",
        target=target.name,
        model=model.source.name,
        recipe=chosen.recipe.name,
        verdicts=chosen.verdicts,
        layers=(*chosen.outputs, *chosen.layers),
        findings=(*found.findings, *chosen.findings),
        rewrites=found.rewrites,
        schemes=sizes(tensors),
        steps=tuple(steps),
        not_run=_not_run(found),
        hardware=hardware(look()),
        provenance={
            "model": model.source.name,
            "model format": model.source.kind,
            "licence": model.source.licence or "not stated by the model",
            "samples": found.samples.source,
            **figures,
            "recipes tried": tried,
            "command": command_line(),
        },
    )


def _not_run(found: GraphResult) -> tuple[NotRun, ...]:
    samples = found.samples
    items = [not_compiled(found.target)] if found.chosen.candidate.emulates else []
    if not samples.real:
        items.append(NotRun("your own samples", f"none were given; they are {samples.source}"))
    if samples.shared:
        items.append(NotRun("calibration apart from verification", "too few samples to keep them apart"))
    return tuple(items)
