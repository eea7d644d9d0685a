"""Trial: one recipe, quantized, verified and judged."""

from __future__ import annotations

from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace

from chipwise.build.candidate import Candidate
from chipwise.build.compiled_decoder import CompiledDecoder
from chipwise.build.given_file import GivenFile
from chipwise.build.graph_files import ENGINE, GraphFiles
from chipwise.build.options import BuildOptions
from chipwise.build.texts import Texts
from chipwise.engine import Session
from chipwise.errors import ModelFormatError
from chipwise.files import sha256_bytes, sha256_file
from chipwise.model.chat_template import ChatTemplate
from chipwise.model.model import Model
from chipwise.model.tokenizer import Tokenizer
from chipwise.quant.recipe import Recipe
from chipwise.report import Finding, Verdict
from chipwise.report.quality import Quality
from chipwise.report.report import LayerCosine
from chipwise.target.host.machine import look
from chipwise.verify.environment import hardware_line
from chipwise.verify.gate import judge
from chipwise.verify.generate import Progress, Prompt, generate
from chipwise.verify.layers import layer_cosines
from chipwise.verify.reference.store import ReferenceStore
from chipwise.verify.reference.verify_beside import Beside, Reference, verify_beside
from chipwise.verify.run import context_needed
from chipwise.verify.semantic.index import with_semantic_drift
from chipwise.verify.semantic.locate import installed_model, open_embedder
from chipwise.verify.speed import Speed
from chipwise.verify.thresholds import Thresholds

# Cases answered at once: decoding many streams costs little more than one.
_SLOTS = 16
_LAYER_PROMPTS = 4
_RANGE_PROMPTS = 16

CALIBRATION_ANSWER_TOKENS = 24
"""Tokens of the reference's answer behind a calibration prompt, at most."""


@dataclass(frozen=True)
class Trial:
    """A recipe and what verification said of it.

    Attributes:
        recipe: The recipe.
        candidate: Its graphs.
        quality: What was measured.
        verdicts: What the gate says.
        layers: Cosines along the graph; empty for the reference itself.
        findings: What calibration did not foresee.
        reference_answers: Where the reference's answers came from, in words.
        speed: How fast the candidate was on this machine; None where that would say nothing of the target.
        reference_speed: How fast the reference was; None likewise.
        size_bytes: Size of the candidate's weights, which move into the bundle.
        certainty: How sure the verdicts on dimensions had to be; None if there are none.
        reference_cached: Whether the reference's answers and speed are of an earlier run.
    """

    recipe: Recipe
    candidate: Candidate
    quality: Quality
    verdicts: tuple[Verdict, ...]
    layers: tuple[LayerCosine, ...]
    findings: tuple[Finding, ...] = ()
    reference_answers: str = ""
    speed: Speed | None = None
    reference_speed: Speed | None = None
    size_bytes: int | None = None
    certainty: float | None = None
    reference_cached: bool = False

    @property
    def passed(self) -> bool:
        """Whether every verdict passed."""
        return all(verdict.passed for verdict in self.verdicts)

    def headline(self) -> str:
        """The outcome in one line."""
        failed = [verdict.line() for verdict in self.verdicts if not verdict.passed]
        if failed:
            return f"gate failed: {'; '.join(failed)}"
        unsure = sum(not verdict.sure for verdict in self.verdicts)
        drift = self.quality.answer
        kl = f", KL {drift.kl_mean_nats:.3g} nats, top-1 agreement {drift.top1_agreement:.1%}" if drift else ""
        passed = f"gate passed but for want of cases ({unsure} gates not sure)" if unsure else "gate passed"
        return f"{passed} on {len(self.quality.cases)} cases{kl}"


def run_trial(
    recipe: Recipe,
    reference: GraphFiles,
    candidate: Candidate,
    model: Model,
    texts: Texts,
    options: BuildOptions,
    progress: Progress,
    *,
    tried: int = 1,
) -> Trial:
    """Compare candidate and reference on the cases, look along the layers, and hold the result against the gate.

    ``tried`` counts the recipes tried so far, this one included: the more there are, the surer each must be.
    """
    if model.tokenizer is None:
        raise ModelFormatError("no tokenizer", where=str(model.source.path))
    run = _run(reference, candidate, model.tokenizer, model.chat_template, texts, options, progress)
    quality = run.quality
    embeddings = options.embeddings or installed_model()
    if embeddings and candidate is not reference:
        with open_embedder(embeddings, threads=options.threads) as embedder:
            quality = with_semantic_drift(quality, embedder)
    thresholds = Thresholds.for_weight_bits(recipe.weight_bits).with_overrides(texts.gate).with_overrides(options.gate)
    layers, findings = _look_inside(reference, candidate, texts, options.threads or 2)
    verdicts = judge(quality, thresholds, tried=tried)
    if isinstance(candidate, CompiledDecoder):
        verdicts = (*verdicts, Verdict.judge("compiler_errors", candidate.errors, 0, "max"))
    return Trial(
        recipe,
        candidate,
        quality,
        verdicts,
        layers,
        findings,
        run.answers,
        run.speed,
        run.reference_speed,
        candidate.weights_bytes,
        thresholds.certainty if quality.matrix else None,
        run.cached,
    )


def _run(
    reference: GraphFiles,
    candidate: Candidate,
    tokenizer: Tokenizer,
    template: ChatTemplate | None,
    texts: Texts,
    options: BuildOptions,
    progress: Progress,
) -> Beside:
    slots = min(_SLOTS, len(texts.prompts))
    context = context_needed(texts.prompts)

    def theirs() -> AbstractContextManager[Session]:
        return closing(reference.open(n_slots=slots, max_context=context, threads=options.threads, yields=True))

    content = {
        "files": {role: sha256_file(path) for role, path in (*reference.files.items(), ("weights", reference.weights))},
        "tokenizer": {name: sha256_bytes(data) for name, data in tokenizer.to_files().items()},
        "template": template.to_dict() if template else None,
        "opened": [slots, context, options.threads, dict(reference.options)],
    }
    store = ReferenceStore.of_user() if options.cache else None
    ours = candidate.open(n_slots=slots, max_context=context, threads=options.threads, yields=True)
    # Neither a simulator nor emulated arithmetic is as fast as the chip.
    timed = not isinstance(candidate, CompiledDecoder) and candidate.emulates is None
    with closing(ours):
        return verify_beside(
            texts.cases, texts.prompts, tokenizer, candidate=ours, reference=Reference(theirs, ENGINE, content),
            store=store, hardware=hardware_line(look()) if timed else None, progress=progress,
        )  # fmt: skip


def _look_inside(
    reference: GraphFiles, candidate: Candidate, texts: Texts, threads: int
) -> tuple[tuple[LayerCosine, ...], tuple[Finding, ...]]:
    """Where along the graph the candidate drifts, and whether its inputs there are those it was calibrated on."""
    if isinstance(candidate, CompiledDecoder):
        # The simulator shows no values inside.
        return (), candidate.findings
    if isinstance(candidate, GivenFile) or candidate is reference:
        return (), ()
    prompts = [prompt.tokens for prompt in texts.prompts]
    feeds = candidate.feeds(prompts)[:_LAYER_PROMPTS]
    layers = layer_cosines(reference.reads_prompts, candidate.reads_prompts, feeds, threads=threads)
    findings: tuple[Finding, ...] = ()
    if candidate.ranges is not None:
        findings = candidate.ranges.findings(prompts[:_RANGE_PROMPTS], threads=threads)
    return tuple(layers), findings


def with_answers(texts: Texts, reference: GraphFiles, model: Model, threads: int, progress: Progress) -> Texts:
    """The texts with the reference's own answers behind the calibration prompts.

    A model spends its time on answers: scales that have seen only questions serve them worse.
    """
    if model.tokenizer is None:
        raise ModelFormatError("no tokenizer", where=str(model.source.path))
    room = reference.context or CALIBRATION_ANSWER_TOKENS + max(map(len, texts.calibration))
    prompts = [
        Prompt(tokens, min(CALIBRATION_ANSWER_TOKENS, room - len(tokens)))
        for tokens in texts.calibration
        if len(tokens) < room
    ]
    if not prompts:
        return texts
    slots = min(_SLOTS, len(prompts))
    session = reference.open(n_slots=slots, max_context=context_needed(prompts), threads=threads)
    try:
        answers = generate(session, prompts, eos_ids=model.tokenizer.special.eos_ids, progress=progress)
    finally:
        session.close()
    joined = tuple(p.tokens + a.tokens for p, a in zip(prompts, answers, strict=True))
    return replace(texts, calibration=joined)
