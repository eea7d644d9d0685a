"""The end of a decoder's build: the report, and the bundle with everything that belongs to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from chipwise.build.build_report import build_report, bundle_name
from chipwise.build.candidate import Candidate
from chipwise.build.compiled_decoder import RKNN, CompiledDecoder
from chipwise.build.decoder_result import DecoderResult
from chipwise.build.fallback import add_fallback
from chipwise.build.given_file import GivenFile
from chipwise.build.graph_files import ENGINE
from chipwise.build.options import BuildOptions
from chipwise.build.sizes import float32_bytes
from chipwise.build.stored import WEIGHTS, StoredWeight, relocate
from chipwise.build.texts import Texts
from chipwise.bundle import BundleWriter, EngineSpec, Manifest, ModelInfo, SelfTest, record_self_test
from chipwise.model.config import DecoderConfig
from chipwise.model.model import Model
from chipwise.report.attribution import Attribution
from chipwise.report.html import render_html
from chipwise.report.report import NotRun, Report, Step
from chipwise.report.tried import TriedRecipe
from chipwise.report.verdict import together
from chipwise.verify.weighed import weighed, weighed_reference

_SELF_TEST_TOKENS = 8


@dataclass(frozen=True)
class Made:
    """A bundle's folder and its report."""

    path: Path
    report: Report


def describe(model: Model, config: DecoderConfig, texts: Texts) -> str:
    """What was read, in one line."""
    queries = "general queries (give yours with --queries)" if texts.general else "your queries"
    skipped = f", {texts.skipped} too long for the context" if texts.skipped else ""
    skipped += f", {texts.left_out} cases of the suite beyond --cases left out" if texts.left_out else ""
    verified = f"{len(texts.cases)} to verify from your suite" if texts.scored else f"{len(texts.cases)} to verify"
    order = (
        f"{verified}; {len(texts.calibration)} to calibrate"
        if texts.scored
        else (f"{len(texts.calibration)} prompts to calibrate, {verified}")
    )
    return (
        f"{model.source.name}: {config.arch}, {config.n_layers} layers, vocabulary {config.vocab_size}; "
        f"{order} from {queries}{skipped}"
    )


def write_bundle(options: BuildOptions, found: DecoderResult, steps: Sequence[Step]) -> Made:
    """Put graphs, weights, tokenizer, self-test and report into a bundle at ``options.out``.

    Raises:
        OutputError: The disk does not take it.
        BundleError: The candidate's logits are all zero, all equal or not finite.
    """
    chosen, source = found.chosen, found.model.source
    graphs = chosen.candidate
    test = _self_test(graphs, found.texts, options.threads)
    with BundleWriter(options.out, overwrite=options.overwrite) as writer:
        weights_bytes = 0 if isinstance(graphs, CompiledDecoder) else graphs.weights_bytes
        stored, engine = _add_graphs(writer, graphs)
        if found.model.tokenizer:
            writer.add_tokenizer(found.model.tokenizer)
        if found.model.chat_template:
            writer.add_chat_template(found.model.chat_template)
        manifest = Manifest(
            name=bundle_name(found.model, chosen),
            target=found.target.name,
            engine=engine,
            model=ModelInfo(_served(found), source.kind, source.name, source.licence),
            self_test=test,
            tensors={name: weight.entry for name, weight in stored.items()},
            verdicts=chosen.verdicts,
            fallback=None if found.fallback is None else add_fallback(writer, found.fallback),
        )
        report = build_report(
            found, steps, stored, weights_bytes=weights_bytes,
            data=found.texts.source, quality=chosen.quality, layers=chosen.layers, not_run=tuple(_not_run(found)),
            tried=_tried(found), measurements=(chosen.speed.decode, chosen.speed.prefill) if chosen.speed else (),
            attribution=found.attribution if isinstance(found.attribution, Attribution) else None,
        )  # fmt: skip
        return commit(writer, manifest, report)


def commit(writer: BundleWriter, manifest: Manifest, report: Report) -> Made:
    """Add the report, in JSON and for people, and let the bundle take its place.

    Raises:
        OutputError: The disk does not take it.
    """
    writer.add_document("report.json", report.to_json())
    writer.add_document("report.html", render_html(report).encode())
    return Made(writer.commit(manifest), report)


def _tried(found: DecoderResult) -> tuple[TriedRecipe, ...]:
    """Every recipe that was verified beside the reference, which comes first."""
    first, chosen = found.trials[0], found.chosen
    rows = [
        weighed(
            trial.recipe.name, trial.quality, size_bytes=trial.size_bytes, speed=trial.speed,
            outcome=together(trial.verdicts), kept=trial is chosen, said=trial.headline(),
        )
        for trial in found.trials
        if trial.recipe.quantizes
    ]  # fmt: skip
    own = next((trial for trial in found.trials if not trial.recipe.quantizes), None)
    reference = weighed_reference(
        "fp32", first.quality, size_bytes=float32_bytes(found.model), speed=first.reference_speed,
        earlier=first.reference_cached,
    )  # fmt: skip
    return (replace(reference, kept=own is chosen), *rows)


def _served(found: DecoderResult) -> dict[str, Any]:
    """What a server must know of the architecture: tables of positions and static caches end where they end."""
    positions = found.chosen.candidate.context or found.context
    return {**found.config.to_dict(), "max_positions": positions}


def _add_graphs(writer: BundleWriter, graphs: Candidate) -> tuple[dict[str, StoredWeight], EngineSpec]:
    """Add the graphs; what is known of their weights, and the engine that opens them."""
    stored: dict[str, StoredWeight] = {}
    if isinstance(graphs, CompiledDecoder):
        for role, part in graphs.parts.items():
            writer.add_file(role, part.path, ".rknn")
        return stored, EngineSpec(RKNN, graphs.options)
    if isinstance(graphs, GivenFile):
        return graphs.stored(), graphs.add_to(writer)
    weights = writer.add_file(WEIGHTS, graphs.weights, ".bin")
    for role, graph in graphs.files.items():
        stored |= relocate(graph, weights, graphs.schemes)
        writer.add_file(role, graph, ".onnx")
    return stored, EngineSpec(ENGINE, dict(graphs.options))


def _self_test(graphs: Candidate, texts: Texts, threads: int) -> SelfTest:
    prompt = min((prompt.tokens for prompt in texts.prompts), key=len)
    room = _SELF_TEST_TOKENS if graphs.context is None else min(_SELF_TEST_TOKENS, graphs.context - len(prompt))
    session = graphs.open(n_slots=1, max_context=len(prompt) + room, threads=threads)
    try:
        return record_self_test(session, prompt, max_tokens=room)
    finally:
        session.close()


def _not_run(found: DecoderResult) -> Iterator[NotRun]:
    texts = found.texts
    if isinstance(found.attribution, NotRun):
        yield found.attribution
    if texts.general:
        stood_in = "general ones stood in for calibration" if texts.scored else "general ones stood in for them"
        yield NotRun("your own queries", f"none were given with --queries; {stood_in}")
    if texts.left_out:
        more = f"{texts.left_out} more of the suite's cases"
        yield NotRun(more, f"--cases is {len(texts.cases)}; give --cases {len(texts.cases) + texts.left_out}")
    if texts.skipped:
        yield NotRun(f"{texts.skipped} of the queries or cases", "longer than the context")
    if texts.shared:
        yield NotRun("calibration apart from verification", "too few queries to keep them apart")
    if not any(case.keywords for case in texts.cases):
        yield NotRun("keyword fidelity", "no --suite with keywords was given")
