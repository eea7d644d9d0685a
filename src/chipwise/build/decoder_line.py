"""The line for decoders: reference, proof, calibration, then recipes one after the other until one passes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from chipwise.build.attribute_trial import attribute_trial, in_words
from chipwise.build.build_report import bundle_name
from chipwise.build.candidate import Candidate
from chipwise.build.chip_toolchain import installed_toolchain, why_emulated
from chipwise.build.compiled_decoder import CompiledDecoder
from chipwise.build.decoder_graphs import DecoderGraphs, graphs_for
from chipwise.build.decoder_result import DecoderResult
from chipwise.build.fallback import BuiltFallback, build_fallback
from chipwise.build.finish import describe, write_bundle
from chipwise.build.given_file import AS_GIVEN, given_recipes
from chipwise.build.given_graphs import GivenGraphs
from chipwise.build.graph_files import GraphFiles
from chipwise.build.line import Workplace, for_outcome
from chipwise.build.media_settings import refuse_media
from chipwise.build.options import BuildOptions
from chipwise.build.recipes import recipes_to_try
from chipwise.build.result import BuildResult
from chipwise.build.rknn_decoder import RknnDecoderGraphs
from chipwise.build.texts import CALIBRATION_PROMPTS, Texts, gather_texts
from chipwise.build.trial import Trial, run_trial, with_answers
from chipwise.check.run import check
from chipwise.errors import InputError, ModelFormatError
from chipwise.model.config import DecoderConfig
from chipwise.model.model import Model
from chipwise.quant.recipe import Recipe
from chipwise.report import Finding
from chipwise.report.report import RewriteStep
from chipwise.target import Target

# Longer contexts than this are rarely served on a board, and the rotary tables of every position lie in the graph.
_DEFAULT_CONTEXT = 8192
# A graph that agrees on this many tokens agrees on more; the logits of all of them are held twice.
_PROOF_TOKENS = 128
# Ranges of 8-bit activations clip what they have not seen, and a third of the texts is kept for measuring.
_COMPILED_PROMPTS = 64
# What `auto` tries, the smallest first: on CPUs integer activations buy speed and no memory.
_CPU_RECIPES = ("w4a16", "w8a16")
_CHIP_RECIPES = ("w4a16", "w8a8", "w8a16", "fp16")


def read_decoder(options: BuildOptions, target: Target, model: Model, config: DecoderConfig) -> DecoderLine:
    """Read queries and suite, and settle what to try.

    Raises:
        InputError: A query file, the suite or the recipe is wrong, or the target does not take the recipe.
        ModelFormatError: The model has no tokenizer or no weights.
    """
    if options.samples is not None or options.dims:
        raise InputError(
            f"{config.arch} is a language model: it has no samples and dimensions", where=options.model,
            remedy="give --queries and --context in place of --samples and --dim",
        )  # fmt: skip
    refuse_media(options, config.arch)
    auto = _CPU_RECIPES if target.engine == "onnxruntime" else _CHIP_RECIPES
    recipes = given_recipes(options, target, model) if options.engine else recipes_to_try(options, target, auto)
    if model.tokenizer is None:
        raise ModelFormatError(
            "no tokenizer", where=str(model.source.path), remedy="put tokenizer.json beside the weights"
        )
    if model.weights is None:
        raise ModelFormatError("no weights", where=str(model.source.path))
    context = options.max_context or min(config.max_positions, _DEFAULT_CONTEXT)
    compiled = installed_toolchain(options, target) is not None
    texts = gather_texts(
        options, model.tokenizer, model.chat_template, context,
        calibration_prompts=_COMPILED_PROMPTS if compiled else CALIBRATION_PROMPTS,
    )  # fmt: skip
    return DecoderLine(options, target, model, config, context, texts, recipes)


@dataclass(frozen=True)
class DecoderLine:
    """A decoder's build, once everything is read.

    Attributes:
        options: What the user asked for.
        target: The target.
        model: The model.
        config: Its architecture.
        context: The longest context, in tokens.
        texts: What it is calibrated and verified on.
        recipes: What is tried, in order.
    """

    options: BuildOptions
    target: Target
    model: Model
    config: DecoderConfig
    context: int
    texts: Texts
    recipes: tuple[Recipe, ...]

    def describe(self) -> str:
        """What was read, in one line."""
        return describe(self.model, self.config, self.texts)

    def check(self) -> Sequence[Finding]:
        """The model held against the target, with the context it shall have and the last recipe tried."""
        asked = self.context if self.target.engine == "onnxruntime" else self.options.max_context
        last = self.recipes[-1]
        return check(self.model, self.target, max_context=asked, recipe=None if last is AS_GIVEN else last.name)

    def build(self, place: Workplace) -> BuildResult:
        """Write the reference, prove what was rewritten, try the recipes, bundle the one that is kept."""
        with ExitStack() as stack:
            return self._build(place, stack)

    def _build(self, place: Workplace, stack: ExitStack) -> BuildResult:
        log, threads, texts = place.log, self.options.threads, self.texts
        graphs = graphs_for(
            self.options, self.target, self.model, self.config, texts, self.context, place.folder, stack
        )
        with log.step("reference") as note:
            reference = graphs.reference()
            note.text = f"float32, {_megabytes(reference)} MB"
        with log.step("prove rewrites") as note:
            rewrites = graphs.prove(reference, texts.calibration[0][:_PROOF_TOKENS])
            note.text = f"largest difference of a logit {max(step.max_abs_difference or 0 for step in rewrites):.2g}"
        if any(graphs.calibrates(recipe) for recipe in self.recipes):
            with log.step("calibrate") as note:
                texts = with_answers(texts, reference, self.model, threads, log.listener.progress)
                note.text = f"{sum(map(len, texts.calibration))} tokens: queries and the reference's answers to them"
        trials: list[Trial] = []
        for recipe in self.recipes:
            trials.append(self._try(recipe, graphs, reference, texts, place, tried=len(trials) + 1))
            if trials[-1].passed:
                break
        chosen = trials[-1]
        attribution = None
        if not chosen.passed and chosen.candidate is not reference:
            with log.step("attribute") as note:
                attribution = attribute_trial(
                    chosen, reference, self.model, texts, threads=threads, progress=log.listener.progress
                )
                note.text = in_words(attribution) if attribution else ""
        options = for_outcome(self.options, passed=chosen.passed)
        fallback = self._fallback(chosen.candidate.context or self.context, place, texts)
        with log.step("bundle") as note:
            found = DecoderResult(
                self.target, self.model, self.config, self.context, texts, place.findings,
                (*rewrites, *_prepared(chosen)), trials, why_emulated(self.options, self.target), attribution,
                fallback,
            )  # fmt: skip
            made = write_bundle(options, found, log.steps)
            note.text = f"{bundle_name(self.model, chosen)} at {options.out}"
        return BuildResult(made.path, made.report, chosen.recipe.name)

    def _fallback(self, context: int, place: Workplace, texts: Texts) -> BuiltFallback | None:
        precision = self.options.fallback
        if precision is None:
            return None
        with place.log.step(f"fallback {precision}") as note:
            built = build_fallback(
                precision, self.model, self.config, texts, context, place.folder,
                target=self.target, threads=self.options.threads,
            )  # fmt: skip
            note.text = f"{_megabytes(built.graphs)} MB, for the CPU"
        return built

    def _try(
        self,
        recipe: Recipe,
        graphs: DecoderGraphs | RknnDecoderGraphs | GivenGraphs,
        reference: GraphFiles,
        texts: Texts,
        place: Workplace,
        *,
        tried: int,
    ) -> Trial:
        log = place.log
        candidate: Candidate = reference
        if not recipe.quantizes:
            pass
        elif isinstance(graphs, GivenGraphs):
            candidate = graphs.given
        elif isinstance(graphs, RknnDecoderGraphs):
            candidate = graphs.compiled(recipe, reference, texts.calibration, log)
        else:
            with log.step(f"quantize {recipe.name}") as note:
                candidate = graphs.candidate(recipe, reference, texts.calibration, progress=log.listener.progress)
                note.text = f"{_megabytes(candidate)} MB{_as_given(candidate)}{_emulated(candidate)}"
        with log.step(f"verify {recipe.name}") as note:
            progress = log.listener.progress
            trial = run_trial(recipe, reference, candidate, self.model, texts, self.options, progress, tried=tried)
            note.text = trial.headline()
        return trial


def _megabytes(graphs: GraphFiles) -> int:
    return graphs.weights_bytes // 1_000_000


def _prepared(chosen: Trial) -> tuple[RewriteStep, ...]:
    """What was rewritten for a toolkit beyond what the reference shows."""
    return chosen.candidate.steps if isinstance(chosen.candidate, CompiledDecoder) else ()


def _as_given(graphs: GraphFiles) -> str:
    """How many weights needed no quantization, as the file had them in this precision."""
    quantized = [scheme for scheme in graphs.schemes.values() if scheme.bits < 16]
    kept = sum(scheme.as_given for scheme in quantized)
    return f", {kept} of {len(quantized)} quantized weights keep the 4-bit values they came with" if kept else ""


def _emulated(graphs: GraphFiles) -> str:
    return f", emulates {graphs.emulates}'s arithmetic on this machine" if graphs.emulates else ""
