"""The end of a decoder's build: the report, and the bundle with everything that belongs to it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chipwise.build.graph_files import ENGINE, GraphFiles
from chipwise.build.options import BuildOptions
from chipwise.build.stored import WEIGHTS, relocate, sizes
from chipwise.build.texts import Texts
from chipwise.build.trial import Trial
from chipwise.bundle import BundleWriter, EngineSpec, Manifest, ModelInfo, SelfTest, TensorEntry, record_self_test
from chipwise.model.config import DecoderConfig
from chipwise.model.model import Model
from chipwise.report import Finding
from chipwise.report.html import render_html
from chipwise.report.report import NotRun, Report, RewriteStep, Step
from chipwise.target import Target
from chipwise.target.host.machine import look
from chipwise.verify.environment import hardware

_SELF_TEST_TOKENS = 8


@dataclass(frozen=True)
class DecoderResult:
    """What a decoder's build came to.

    Attributes:
        target: The target.
        model: The model.
        config: Its architecture.
        context: The longest context the graphs take, in tokens.
        texts: What it was calibrated and verified on.
        findings: What the checks found.
        rewrites: What was rewritten, and the proofs.
        trials: The recipes tried; the last one is kept.
    """

    target: Target
    model: Model
    config: DecoderConfig
    context: int
    texts: Texts
    findings: tuple[Finding, ...]
    rewrites: tuple[RewriteStep, ...]
    trials: Sequence[Trial]

    @property
    def chosen(self) -> Trial:
        """The recipe that is kept."""
        return self.trials[-1]


@dataclass(frozen=True)
class Made:
    """A bundle's folder and its report."""

    path: Path
    report: Report


def bundle_name(model: Model, trial: Trial) -> str:
    """The name a server gives the bundle, e.g. ``SmolLM2-135M-Instruct-w4a16``; one that emulates a chip says so."""
    emulated = f"-{trial.candidate.emulates}-emulated" if trial.candidate.emulates else ""
    return f"{model.source.name}-{trial.recipe.name}{emulated}"


def describe(model: Model, config: DecoderConfig, texts: Texts) -> str:
    """What was read, in one line."""
    source = "general queries (give yours with --queries)" if texts.general else "your queries"
    skipped = f", {texts.skipped} too long for the context" if texts.skipped else ""
    return (
        f"{model.source.name}: {config.arch}, {config.n_layers} layers, vocabulary {config.vocab_size}; "
        f"{len(texts.calibration)} prompts to calibrate, {len(texts.cases)} to verify from {source}{skipped}"
    )


def write_bundle(options: BuildOptions, found: DecoderResult, steps: Sequence[Step]) -> Made:
    """Put graphs, weights, tokenizer, self-test and report into a bundle at ``options.out``.

    Raises:
        OutputError: The disk does not take it.
        BundleError: The candidate's logits are all zero, all equal or not finite.
    """
    graphs, source = found.chosen.candidate, found.model.source
    test = _self_test(graphs, found.texts, options.threads)
    with BundleWriter(options.out, overwrite=options.overwrite) as writer:
        weights = writer.add_file(WEIGHTS, graphs.weights, ".bin")
        tensors: dict[str, TensorEntry] = {}
        for role, graph in graphs.files.items():
            tensors |= relocate(graph, weights, graphs.schemes)
            writer.add_file(role, graph, ".onnx")
        if found.model.tokenizer:
            writer.add_tokenizer(found.model.tokenizer)
        if found.model.chat_template:
            writer.add_chat_template(found.model.chat_template)
        report = _report(found, steps, tensors.values())
        writer.add_document("report.json", report.to_json())
        writer.add_document("report.html", render_html(report).encode())
        manifest = Manifest(
            name=bundle_name(found.model, found.chosen),
            target=found.target.name,
            engine=EngineSpec(ENGINE, dict(graphs.options)),
            model=ModelInfo(_served(found), source.kind, source.name, source.licence),
            self_test=test,
            tensors=tensors,
            verdicts=found.chosen.verdicts,
        )
        path = writer.commit(manifest)
    return Made(path, report)


def command_line() -> str:
    """The command that was given, for a report; empty where chipwise is used as a library."""
    return "chipwise " + shlex.join(sys.argv[1:]) if sys.argv[1:] else ""


def not_compiled(target: Target) -> NotRun:
    """What a report of an emulated chip must say before anything else."""
    return NotRun(
        f"compile for {target.name}",
        f"needs the {target.engine} toolkit, which is no part of this version; all figures here are those of the "
        f"chip's arithmetic emulated on this machine, not the chip's own",
    )


def _served(found: DecoderResult) -> dict[str, Any]:
    """What a server must know of the architecture: tables of positions and static caches end where they end."""
    positions = found.chosen.candidate.context or found.context
    return {**found.config.to_dict(), "max_positions": positions}


def _self_test(graphs: GraphFiles, texts: Texts, threads: int) -> SelfTest:
    prompt = min((prompt.tokens for prompt in texts.prompts), key=len)
    room = _SELF_TEST_TOKENS if graphs.context is None else min(_SELF_TEST_TOKENS, graphs.context - len(prompt))
    session = graphs.open(n_slots=1, max_context=len(prompt) + room, threads=threads)
    try:
        return record_self_test(session, prompt, max_tokens=room)
    finally:
        session.close()


def _report(found: DecoderResult, steps: Sequence[Step], tensors: Iterable[TensorEntry]) -> Report:
    chosen, model, target = found.chosen, found.model, found.target
    emulated = f" (emulated on this machine, not compiled for {target.name})" if chosen.candidate.emulates else ""
    tried = "; ".join(f"{trial.recipe.name}: {trial.headline()}" for trial in found.trials)
    return Report(
        title=f"{model.source.name} for {target.name}, {chosen.recipe.name}{emulated}",
        target=target.name,
        model=model.source.name,
        recipe=chosen.recipe.name,
        verdicts=chosen.verdicts,
        quality=chosen.quality,
        layers=chosen.layers,
        findings=(*found.findings, *chosen.findings),
        rewrites=found.rewrites,
        schemes=sizes(tensors),
        steps=tuple(steps),
        not_run=_not_run(found),
        hardware=hardware(look()),
        provenance=_provenance(found, tried),
    )


def _provenance(found: DecoderResult, tried: str) -> dict[str, str]:
    source = found.model.source
    figures = {"figures": f"{found.target.name} emulated on this machine"} if found.chosen.candidate.emulates else {}
    return {
        "model": source.name,
        "model format": source.kind,
        "licence": source.licence or "not stated by the model",
        **found.texts.source,
        **figures,
        "recipes tried": tried,
        "command": command_line(),
    }


def _not_run(found: DecoderResult) -> tuple[NotRun, ...]:
    texts = found.texts
    items = [not_compiled(found.target)] if found.chosen.candidate.emulates else []
    if texts.general:
        items.append(NotRun("your own queries", "none were given with --queries; general ones stood in for them"))
    if texts.shared:
        items.append(NotRun("calibration apart from verification", "too few queries to keep them apart"))
    if not any(case.keywords for case in texts.cases):
        items.append(NotRun("keyword fidelity", "no --suite with keywords was given"))
    return tuple(items)
