"""The driver: read, check, then what the kind of model needs; with a check between."""

from __future__ import annotations

from collections.abc import Sequence

from chipwise.build.decoder_line import read_decoder
from chipwise.build.graph_gate import GraphThresholds
from chipwise.build.graph_line import read_graph
from chipwise.build.line import Line, Workplace, work_folder
from chipwise.build.options import BuildOptions
from chipwise.build.result import BuildResult
from chipwise.build.steps import BuildListener, SilentListener, StepLog
from chipwise.bundle import refuse_taken
from chipwise.errors import GateFailedError, InputError
from chipwise.model.config import DecoderConfig
from chipwise.model.importer import load_model
from chipwise.model.model import Model
from chipwise.report import Finding
from chipwise.target import Target, load_target
from chipwise.verify.thresholds import Thresholds


def build(options: BuildOptions, listener: BuildListener | None = None) -> BuildResult:
    """Build a bundle.

    Raises:
        InputError: The model, target, queries, suite, recipe or output folder is wrong.
        GateFailedError: The target cannot take the model; nothing is built.
        RewriteError: A rewrite did not prove equal.
        EngineError: The runtime failed.
    """
    log = StepLog(listener or SilentListener())
    refuse_taken(options.out, overwrite=options.overwrite)
    with log.step("read") as note:
        target, model = load_target(options.target), load_model(options.model)
        line = _line(options, target, model)
        note.text = line.describe()
    with log.step("check") as note:
        findings = tuple(line.check())
        note.text = _refuse_errors(findings, model, target)
    with work_folder(options.out) as folder:
        return line.build(Workplace(folder, findings, log))


def _line(options: BuildOptions, target: Target, model: Model) -> Line:
    if options.shape_sets and (model.onnx_path is None or isinstance(model.config, DecoderConfig)):
        raise InputError("several sizes are for ONNX graphs", where="--dim", remedy="leave them out")
    # A threshold that does not exist is said now, not after the first recipe is verified.
    if isinstance(model.config, DecoderConfig):
        Thresholds().with_overrides(options.gate)
        return read_decoder(options, target, model, model.config)
    GraphThresholds().with_overrides(options.gate)
    return read_graph(options, target, model)


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
