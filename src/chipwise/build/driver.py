"""The driver: read, check, write the reference, quantize, verify, bundle; with a check between."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from chipwise.build.finish import bundle_name, describe, write_bundle
from chipwise.build.graphs import CpuGraphs, GraphFiles
from chipwise.build.options import AUTO, BuildOptions
from chipwise.build.result import BuildResult
from chipwise.build.steps import BuildListener, SilentListener, StepLog
from chipwise.build.texts import Texts, gather_texts
from chipwise.build.trial import Trial, run_trial, with_answers
from chipwise.check.run import check
from chipwise.errors import GateFailedError, InputError, ModelFormatError
from chipwise.files import writing
from chipwise.model.config import DecoderConfig
from chipwise.model.importer import load_model
from chipwise.model.model import Model
from chipwise.quant.recipe import Recipe, parse_recipe
from chipwise.report import Finding
from chipwise.report.report import RewriteStep
from chipwise.target import Target, load_target

# Longer contexts than this are rarely served on a board, and the rotary tables of every position lie in the graph.
_DEFAULT_CONTEXT = 8192
# What `auto` tries, the smallest first.
_AUTO_RECIPES = ("w4a16", "w8a16")


def build(options: BuildOptions, listener: BuildListener | None = None) -> BuildResult:
    """Build a bundle.

    Raises:
        InputError: The model, target, queries, suite, recipe or output folder is wrong.
        GateFailedError: The target cannot take the model; nothing is built.
        RewriteError: A rewrite did not prove equal.
        EngineError: The runtime failed.
    """
    log = StepLog(listener or SilentListener())
    _refuse_output(options)
    recipes = _recipes(options)
    with log.step("read") as note:
        target = load_target(options.target)
        model, config = _decoder(options.model)
        context = options.max_context or min(config.max_positions, _DEFAULT_CONTEXT)
        texts = _texts(options, model, context)
        note.text = describe(model, config, texts)
    with log.step("check") as note:
        findings = check(model, target, max_context=context, recipe=recipes[-1].name)
        note.text = _refuse_errors(findings, model, target)
    parent = options.out.absolute().parent
    with writing(parent):
        parent.mkdir(parents=True, exist_ok=True)
    with writing(parent):
        folder = tempfile.mkdtemp(prefix=f".{options.out.name}.work-", dir=parent)
    try:
        return _build_in(Path(folder), options, target, model, config, context, texts, recipes, findings, log)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _build_in(
    folder: Path,
    options: BuildOptions,
    target: Target,
    model: Model,
    config: DecoderConfig,
    context: int,
    texts: Texts,
    recipes: Sequence[Recipe],
    findings: Sequence[Finding],
    log: StepLog,
) -> BuildResult:
    if model.weights is None:
        raise ModelFormatError("no weights", where=str(model.source.path))
    graphs = CpuGraphs(config, model.weights, context, folder)
    with log.step("reference") as note:
        reference = graphs.reference()
        note.text = f"float32, {_megabytes(reference)} MB"
    with log.step("prove rewrites") as note:
        rewrite = graphs.prove(reference, texts.calibration[0], threads=options.threads)
        note.text = f"largest difference of a logit {rewrite.max_abs_difference:.2g}"
    if any(recipe.algorithm == "gptq" for recipe in recipes):
        with log.step("calibrate") as note:
            texts = with_answers(texts, reference, model, options.threads, log.listener.progress)
            note.text = f"{sum(map(len, texts.calibration))} tokens: queries and the reference's answers to them"
    trials: list[Trial] = []
    for recipe in recipes:
        trials.append(_try(recipe, graphs, reference, model, texts, options, log))
        if trials[-1].passed:
            break
    return _finish(options, target, model, config, texts, findings, [rewrite], trials, log)


def _try(
    recipe: Recipe,
    graphs: CpuGraphs,
    reference: GraphFiles,
    model: Model,
    texts: Texts,
    options: BuildOptions,
    log: StepLog,
) -> Trial:
    candidate = reference
    if recipe.quantizes:
        with log.step(f"quantize {recipe.name}") as note:
            candidate = graphs.candidate(
                recipe, reference, texts.calibration, threads=options.threads, progress=log.listener.progress
            )
            note.text = f"{_megabytes(candidate)} MB"
    with log.step(f"verify {recipe.name}") as note:
        trial = run_trial(recipe, reference, candidate, model, texts, options, log.listener.progress)
        note.text = trial.headline()
    return trial


def _finish(
    options: BuildOptions,
    target: Target,
    model: Model,
    config: DecoderConfig,
    texts: Texts,
    findings: Sequence[Finding],
    rewrites: Sequence[RewriteStep],
    trials: Sequence[Trial],
    log: StepLog,
) -> BuildResult:
    chosen = trials[-1]
    out, overwrite = options.out, options.overwrite
    if not chosen.passed:
        # What failed must not take the place of what works.
        out, overwrite = out.with_name(f"{out.name}.failed"), True
    with log.step("bundle") as note:
        made = write_bundle(
            replace(options, out=out, overwrite=overwrite),
            target, model, config, texts, findings, rewrites, trials, log.steps,
        )  # fmt: skip
        note.text = f"{bundle_name(model, chosen.recipe)} at {out}"
    return BuildResult(made.path, made.report, chosen.recipe.name)


def _refuse_output(options: BuildOptions) -> None:
    if options.out.exists() and not options.overwrite:
        raise InputError("exists already", where=str(options.out), remedy="choose another --output, or add --overwrite")


def _recipes(options: BuildOptions) -> list[Recipe]:
    names = _AUTO_RECIPES if options.recipe == AUTO else (options.recipe,)
    return [parse_recipe(name) for name in names]


def _decoder(ref: str) -> tuple[Model, DecoderConfig]:
    model = load_model(ref)
    if not isinstance(model.config, DecoderConfig):
        kind = model.config.arch if model.config else "an ONNX graph"
        raise InputError(
            f"{kind} is no language model that answers", where=ref,
            remedy="give a decoder model (llama, qwen2, qwen3, gemma3, phi3) as a folder or GGUF file",
        )  # fmt: skip
    return model, model.config


def _texts(options: BuildOptions, model: Model, context: int) -> Texts:
    if model.tokenizer is None:
        raise ModelFormatError(
            "no tokenizer", where=str(model.source.path), remedy="put tokenizer.json beside the weights"
        )
    return gather_texts(options, model.tokenizer, model.chat_template, context)


def _refuse_errors(findings: Sequence[Finding], model: Model, target: Target) -> str:
    errors = [finding for finding in findings if finding.severity == "error"]
    if errors:
        first = errors[0]
        raise GateFailedError(
            f"{target.name} cannot take it: {len(errors)} error(s), first: {first.message}",
            where=first.where,
            remedy=f"{first.remedy} (all findings: chipwise check {model.source.path} --target {target.name})",
        )
    warnings = sum(finding.severity == "warning" for finding in findings)
    return f"{target.name}: no errors, {warnings} warning(s)"


def _megabytes(graphs: GraphFiles) -> int:
    return sum(path.with_suffix(".bin").stat().st_size for path in graphs.files.values()) // 1_000_000
