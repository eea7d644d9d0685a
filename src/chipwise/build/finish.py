"""The end of a build: the report, and the bundle with everything that belongs to it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx

from chipwise.build.graphs import ENGINE
from chipwise.build.options import BuildOptions
from chipwise.build.texts import Texts
from chipwise.build.trial import Trial
from chipwise.bundle import BundleWriter, EngineSpec, Manifest, ModelInfo, SelfTest, TensorEntry, record_self_test
from chipwise.model.config import DecoderConfig
from chipwise.model.model import Model
from chipwise.model.scheme import TensorScheme
from chipwise.quant.recipe import Recipe
from chipwise.report import Finding
from chipwise.report.html import render_html
from chipwise.report.report import NotRun, Report, RewriteStep, SchemeSize, Step
from chipwise.target import Target
from chipwise.target.host.machine import look
from chipwise.verify.environment import hardware

WEIGHTS = "weights"
_SELF_TEST_TOKENS = 8


@dataclass(frozen=True)
class Made:
    """A bundle's folder and its report."""

    path: Path
    report: Report


def bundle_name(model: Model, recipe: Recipe) -> str:
    """The name a server gives the bundle, e.g. ``SmolLM2-135M-Instruct-w4a16``."""
    return f"{model.source.name}-{recipe.name}"


def describe(model: Model, config: DecoderConfig, texts: Texts) -> str:
    """What was read, in one line."""
    source = "general queries (give yours with --queries)" if texts.general else "your queries"
    skipped = f", {texts.skipped} too long for the context" if texts.skipped else ""
    return (
        f"{model.source.name}: {config.arch}, {config.n_layers} layers, vocabulary {config.vocab_size}; "
        f"{len(texts.calibration)} prompts to calibrate, {len(texts.cases)} to verify from {source}{skipped}"
    )


def write_bundle(
    options: BuildOptions,
    target: Target,
    model: Model,
    config: DecoderConfig,
    texts: Texts,
    findings: Sequence[Finding],
    rewrites: Sequence[RewriteStep],
    trials: Sequence[Trial],
    steps: Sequence[Step],
) -> Made:
    """Put graphs, weights, tokenizer, self-test and report into a bundle at ``options.out``."""
    chosen = trials[-1]
    graph = chosen.candidate.files["decoder"]
    test = _self_test(chosen, texts, options.threads)
    with BundleWriter(options.out, overwrite=options.overwrite) as writer:
        weights = writer.add_file(WEIGHTS, graph.with_suffix(".bin"), ".bin")
        tensors = _relocate(graph, weights, chosen.candidate.schemes)
        writer.add_file("decoder", graph, ".onnx")
        if model.tokenizer:
            writer.add_tokenizer(model.tokenizer)
        if model.chat_template:
            writer.add_chat_template(model.chat_template)
        report = _report(options, target, model, texts, findings, rewrites, trials, steps, tensors)
        writer.add_document("report.json", report.to_json())
        writer.add_document("report.html", render_html(report).encode())
        manifest = Manifest(
            name=bundle_name(model, chosen.recipe),
            target=target.name,
            engine=EngineSpec(ENGINE, dict(chosen.candidate.options)),
            model=ModelInfo(config.to_dict(), model.source.kind, model.source.name, model.source.licence),
            self_test=test,
            tensors=tensors,
            verdicts=chosen.verdicts,
        )
        path = writer.commit(manifest)
    return Made(path, report)


def _self_test(trial: Trial, texts: Texts, threads: int) -> SelfTest:
    prompt = min((prompt.tokens for prompt in texts.prompts), key=len)
    session = trial.candidate.open(n_slots=1, max_context=len(prompt) + _SELF_TEST_TOKENS, threads=threads)
    try:
        return record_self_test(session, prompt, max_tokens=_SELF_TEST_TOKENS)
    finally:
        session.close()


def _relocate(graph: Path, weights: str, schemes: Mapping[str, TensorScheme]) -> dict[str, TensorEntry]:
    """Let a graph name its weights file by the name the bundle gave it; returns where each weight lies in it."""
    proto = onnx.load(graph, load_external_data=False)
    places: dict[str, tuple[int, int]] = {}
    for tensor in proto.graph.initializer:
        fields = {entry.key: entry for entry in tensor.external_data}
        if "location" not in fields:
            continue
        fields["location"].value = weights
        places[tensor.name] = (int(fields["offset"].value), int(fields["length"].value))
    graph.write_bytes(proto.SerializeToString())
    entries = {}
    for name, scheme in schemes.items():
        place = next((places[n] for n in (name, f"{name}.packed") if n in places), None)
        if place is not None:
            entries[name] = TensorEntry(scheme, WEIGHTS, *place)
    return entries


def _report(
    options: BuildOptions,
    target: Target,
    model: Model,
    texts: Texts,
    findings: Sequence[Finding],
    rewrites: Sequence[RewriteStep],
    trials: Sequence[Trial],
    steps: Sequence[Step],
    tensors: dict[str, TensorEntry],
) -> Report:
    chosen = trials[-1]
    tried = "; ".join(f"{trial.recipe.name}: {trial.headline()}" for trial in trials)
    return Report(
        title=f"{model.source.name} for {target.name}, {chosen.recipe.name}",
        target=target.name,
        model=model.source.name,
        recipe=chosen.recipe.name,
        verdicts=chosen.verdicts,
        quality=chosen.quality,
        layers=chosen.layers,
        findings=tuple(findings),
        rewrites=tuple(rewrites),
        schemes=_sizes(tensors),
        steps=tuple(steps),
        not_run=_not_run(texts),
        hardware=hardware(look()),
        provenance={
            "model": str(model.source.name),
            "model format": model.source.kind,
            "licence": model.source.licence or "not stated by the model",
            **texts.source,
            "recipes tried": tried,
            "command": "chipwise " + shlex.join(sys.argv[1:]) if sys.argv[1:] else "",
        },
    )


def _sizes(tensors: dict[str, TensorEntry]) -> tuple[SchemeSize, ...]:
    groups: dict[str, list[TensorEntry]] = {}
    for entry in tensors.values():
        groups.setdefault(_words(entry.scheme), []).append(entry)
    return tuple(
        SchemeSize(
            words,
            len(entries),
            bytes_before=sum(_values(e) * 4 for e in entries),
            bytes_after=sum(int(_values(e) * e.scheme.bits_per_value / 8) for e in entries),
        )
        for words, entries in sorted(groups.items())
    )


def _values(entry: TensorEntry) -> int:
    return (entry.bytes or 0) * 8 // entry.scheme.bits


def _words(scheme: TensorScheme) -> str:
    group = f", group {scheme.group_size}" if scheme.group_size else ""
    zero = "" if scheme.symmetric or scheme.scale_dtype is None else ", with zero_point"
    return f"{scheme.dtype}{group}{zero}"


def _not_run(texts: Texts) -> tuple[NotRun, ...]:
    found = []
    if texts.general:
        found.append(NotRun("your own queries", "none were given with --queries; general ones stood in for them"))
    if texts.shared:
        found.append(NotRun("calibration apart from verification", "too few queries to keep them apart"))
    if not any(case.keywords for case in texts.cases):
        found.append(NotRun("keyword fidelity", "no --suite with keywords was given"))
    return tuple(found)
