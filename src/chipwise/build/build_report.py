"""A build's report and the bundle's name: what is the same whatever kind of model was built."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence

from chipwise.build.compiled_decoder import CompiledDecoder
from chipwise.build.compiled_graph import CompiledGraph
from chipwise.build.decoder_result import DecoderResult
from chipwise.build.given_file import GivenFile
from chipwise.build.graph_result import GraphResult
from chipwise.build.graph_trial import GraphTrial
from chipwise.build.sizes import sizes
from chipwise.build.stored import StoredWeight
from chipwise.build.trial import Trial
from chipwise.engine.llamacpp.binding import runtime
from chipwise.model.model import Model
from chipwise.quant.emulation_evidence import evidence_for
from chipwise.report import Measurement
from chipwise.report.attribution import Attribution
from chipwise.report.quality import Quality
from chipwise.report.report import LayerCosine, NotRun, Report, Step
from chipwise.report.tried import TriedRecipe
from chipwise.target.host.machine import look
from chipwise.verify.environment import hardware

_TOOLKIT = "rknn-toolkit2"


def bundle_name(model: Model, trial: Trial | GraphTrial) -> str:
    """The name a server gives the bundle, e.g. ``SmolLM2-135M-Instruct-w4a16``; one that emulates a chip says so."""
    emulated = f"-{trial.candidate.emulates}-emulated" if trial.candidate.emulates else ""
    return f"{model.source.name}-{trial.recipe.name}{emulated}"


def build_report(
    found: DecoderResult | GraphResult,
    steps: Sequence[Step],
    stored: Mapping[str, StoredWeight],
    *,
    weights_bytes: int,
    data: Mapping[str, str],
    layers: tuple[LayerCosine, ...],
    not_run: Sequence[NotRun],
    quality: Quality | None = None,
    samples: int | None = None,
    tried: tuple[TriedRecipe, ...] = (),
    measurements: tuple[Measurement, ...] = (),
    attribution: Attribution | None = None,
) -> Report:
    """The report of a build.

    Args:
        found: What the build came to.
        steps: Its steps.
        stored: The weights as they are stored, by name.
        weights_bytes: Size of the file that holds them; 0 if there is none.
        data: Where the data came from that it was calibrated and verified on.
        layers: Cosines along the graph.
        not_run: What was not done, beside compiling for a chip that is emulated.
        quality: What verification measured on a language model.
        samples: How many samples a plain graph was verified on.
        tried: The recipes that were measured, the reference first.
        measurements: Speeds.
        attribution: Which layers of a language model the damage comes from.
    """
    chosen, model, target = found.chosen, found.model, found.target
    candidate = chosen.candidate
    emulates = candidate.emulates
    emulated = f" (emulated on this machine, not compiled for {target.name})" if emulates else ""
    return Report(
        title=f"{model.source.name} for {target.name}, {chosen.recipe.name}{emulated}",
        target=target.name,
        model=model.source.name,
        recipe=chosen.recipe.name,
        verdicts=chosen.verdicts,
        quality=quality,
        layers=layers,
        findings=(*found.findings, *chosen.findings),
        rewrites=found.rewrites,
        schemes=sizes(model, stored, weights_bytes),
        steps=tuple(steps),
        not_run=(*_first_not_run(found), *not_run),
        hardware=hardware(look()),
        provenance=_provenance(found, data),
        emulates=emulates,
        emulation=evidence_for(target, chosen.recipe.scheme) if emulates else (),
        attribution=attribution,
        samples=samples,
        certainty=chosen.certainty if isinstance(chosen, Trial) else None,
        tried=tried,
        measurements=measurements,
    )


def _provenance(found: DecoderResult | GraphResult, data: Mapping[str, str]) -> dict[str, str]:
    source = found.model.source
    return {
        "model": source.name,
        "model format": source.kind,
        "licence": source.licence or "not stated by the model",
        **data,
        **_figures(found),
        **_answers(found),
        "recipes tried": "; ".join(f"{trial.recipe.name}: {trial.headline()}" for trial in found.trials),
        "command": _command_line(),
    }


def _answers(found: DecoderResult | GraphResult) -> dict[str, str]:
    """Where the reference's answers came from, of a language model."""
    chosen = found.chosen
    return {"reference answers": chosen.reference_answers} if isinstance(chosen, Trial) else {}


def _figures(found: DecoderResult | GraphResult) -> dict[str, str]:
    """What computed the figures, where it is not what runs on the target."""
    candidate, target = found.chosen.candidate, found.target.name
    if isinstance(candidate, CompiledDecoder):
        return _decoder_figures(candidate, target)
    if isinstance(candidate, GivenFile):
        return {"figures": f"the file as it came, run by {runtime()}"}
    if isinstance(candidate, CompiledGraph):
        file = candidate.file
        return {
            "figures": f"{target} simulated on this machine by {_TOOLKIT} {file.toolkit_version}",
            "toolkit": f"{_TOOLKIT} {file.toolkit_version}; it took {candidate.duration_s:.1f} s and "
            f"{candidate.peak_bytes} bytes of memory at most",
            "placement": candidate.placed(),
            "compiled file": f"{file.file_bytes} bytes; on the board {_known(file.weight_bytes)} for constants, "
            f"{_known(file.internal_bytes)} for activations",
        }
    return {"figures": f"{target} emulated on this machine"} if candidate.emulates else {}


def _decoder_figures(candidate: CompiledDecoder, target: str) -> dict[str, str]:
    version = candidate.parts["prefill"].file.toolkit_version
    files = [
        f"{role} {part.file.file_bytes} bytes, on the board {_known(part.file.weight_bytes)} for constants and "
        f"{_known(part.file.internal_bytes)} for activations"
        for role, part in candidate.parts.items()
    ]
    plan = candidate.plan
    return {
        "figures": f"{target} simulated on this machine by {_TOOLKIT} {version}",
        "toolkit": f"{_TOOLKIT} {version}; it took {candidate.duration_s:.1f} s and {candidate.peak_bytes} bytes of "
        "memory at most",
        "placement": candidate.placed(),
        "compiled files": "; ".join(files),
        "kept in float16": "nothing" if plan is None else plan.line(),
    }  # fmt: skip


def _known(n_bytes: int | None) -> str:
    return "an unknown size" if n_bytes is None else f"{n_bytes} bytes"


def _command_line() -> str:
    """The command that was given; empty where chipwise is used as a library."""
    return "chipwise " + shlex.join(sys.argv[1:]) if sys.argv[1:] else ""


def _first_not_run(found: DecoderResult | GraphResult) -> Iterator[NotRun]:
    """What a report of a chip must say before anything else."""
    candidate, target = found.chosen.candidate, found.target
    if isinstance(candidate, CompiledGraph | CompiledDecoder):
        yield NotRun(
            f"run on {target.name}",
            f"all figures here are those of {_TOOLKIT}'s simulator on this machine; `chipwise serve` of the bundle on "
            "a board runs its self-test before anything else",
        )
    elif candidate.emulates:
        yield NotRun(
            f"compile for {target.name}",
            f"{found.why_emulated}; all figures here are those of the chip's arithmetic emulated on this machine, "
            "not the chip's own",
        )
