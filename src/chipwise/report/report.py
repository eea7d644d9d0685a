"""Report: everything a build or a verification found out, written as report.json and read back."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import ClassVar, Literal

from pydantic import ConfigDict, TypeAdapter, ValidationError

from chipwise.errors import InputError
from chipwise.report.attribution import Attribution
from chipwise.report.emulation_figure import EmulationFigure
from chipwise.report.environment import versions
from chipwise.report.finding import Finding
from chipwise.report.measurement import Measurement
from chipwise.report.quality import Quality
from chipwise.report.repair import KeptInFloat16, LayerLoss, RepairTry
from chipwise.report.tried import TriedRecipe
from chipwise.report.verdict import Verdict, together

SCHEMA_VERSION = 1
"""The version of report.json this code writes and reads."""


@dataclass(frozen=True)
class Step:
    """One step of the build.

    Attributes:
        name: The step, e.g. ``quantize``.
        duration_s: How long it took.
        peak_bytes: The process's peak resident memory by its end; None if not known.
        note: What it did, in a few words.
    """

    name: str
    duration_s: float
    peak_bytes: int | None = None
    note: str = ""


@dataclass(frozen=True)
class RewriteStep:
    """One pass over the graph and the proof of it.

    Attributes:
        name: The pass.
        modified: How many places it changed.
        max_abs_difference: The largest difference of any output on real inputs; None if it changed nothing.
        note: What it did, in a few words.
    """

    name: str
    modified: int
    max_abs_difference: float | None = None
    note: str = ""


@dataclass(frozen=True)
class SchemeSize:
    """The tensors stored in one scheme and what they weigh.

    Attributes:
        scheme: The scheme in words, e.g. ``int4, group 32``.
        tensors: How many tensors.
        bytes_before: Their size in the source.
        bytes_after: Their size in the bundle, scales and zero points included.
    """

    scheme: str
    tensors: int
    bytes_before: int
    bytes_after: int


@dataclass(frozen=True)
class LayerCosine:
    """Reference against candidate at one value of the graph.

    Attributes:
        name: The value, e.g. ``layers.3.output``.
        mean: Mean over channels of the cosine of a channel's values over all tokens; 1.0 is equal.
        min: The worst channel's.
        whole: Cosine of all values taken as one vector, which large channels dominate.
        worst_channel: The number of the worst channel.
    """

    name: str
    mean: float
    min: float
    whole: float
    worst_channel: int


@dataclass(frozen=True)
class NotRun:
    """Something that was not checked, and why: a report says what it does not know.

    Attributes:
        what: What was not run.
        why: The reason.
    """

    what: str
    why: str


@dataclass(frozen=True)
class Report:
    """What a build or a verification found out.

    Attributes:
        title: One line for people.
        target: The target's name.
        model: The model's name.
        recipe: The quantization recipe's name.
        verdicts: What the gate says.
        quality: What verification measured; None if it did not run.
        layers: Cosines along the graph.
        findings: What the checks found.
        rewrites: The passes that ran.
        schemes: Sizes by scheme.
        measurements: Speeds and sizes.
        steps: The build's steps.
        not_run: What was not checked.
        hardware: The machine that measured, by property (``cpu``, ``memory``).
        versions: Versions by package.
        provenance: Where everything came from (``model source``, ``model sha256``, ``suite sha256``, ``command``).
        emulates: Name of the chip whose arithmetic was emulated; None if what was measured is what is deployed.
        emulation: Where emulation was held against a vendor's simulator: how far to trust it. Empty if nothing was
            emulated, or no simulator was ever beside it in this scheme.
        repairs: What was tried so that recipes pass their gates; empty if the first try passed.
        losses: Each layer of a compiled graph against float, by its toolkit's account.
        kept_float16: What a quantized graph keeps in float16, and the cost.
        tried: The recipes that were measured, the reference first: what to weigh against each other.
        attribution: Where the damage comes from; None if that was not looked for.
        samples: Samples that a plain graph was verified on; None for a language model, which has cases.
        reference_precision: What the reference's weights are stored in, if that has fewer than 16 bits; else None.
        certainty: How sure verdicts on dimensions had to be; None where none was judged.
        created: When, ISO 8601 in UTC.
        schema_version: Version of this format.
    """

    # JSON has no NaN: it is written as a string, and read back.
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(ser_json_inf_nan="strings")

    title: str
    target: str
    model: str
    recipe: str
    verdicts: tuple[Verdict, ...] = ()
    quality: Quality | None = None
    layers: tuple[LayerCosine, ...] = ()
    findings: tuple[Finding, ...] = ()
    rewrites: tuple[RewriteStep, ...] = ()
    schemes: tuple[SchemeSize, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    steps: tuple[Step, ...] = ()
    not_run: tuple[NotRun, ...] = ()
    hardware: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=versions)
    provenance: dict[str, str] = field(default_factory=dict)
    emulates: str | None = None
    emulation: tuple[EmulationFigure, ...] = ()
    repairs: tuple[RepairTry, ...] = ()
    losses: tuple[LayerLoss, ...] = ()
    kept_float16: tuple[KeptInFloat16, ...] = ()
    tried: tuple[TriedRecipe, ...] = ()
    attribution: Attribution | None = None
    samples: int | None = None
    reference_precision: str | None = None
    certainty: float | None = None
    created: str = field(default_factory=lambda: datetime.now(timezone.utc).isoformat(timespec="seconds"))
    schema_version: int = SCHEMA_VERSION

    @property
    def outcome(self) -> Literal["pass", "fail", "unclear", "not judged"]:
        """``pass`` only if something was judged and all of it surely passed; ``fail`` if anything surely failed."""
        if not self.verdicts:
            return "not judged"
        return together(self.verdicts)

    @property
    def holds(self) -> bool:
        """Whether something was judged and every value measured holds, sure or not."""
        return bool(self.verdicts) and all(verdict.passed for verdict in self.verdicts)

    def to_json(self) -> bytes:
        """The content of report.json: fields in the order above, so that two reports can be compared as text."""
        return _ADAPTER.dump_json(self, indent=1) + b"\n"

    @classmethod
    def from_json(cls, data: bytes, *, where: str) -> Report:
        """Read what ``to_json`` wrote.

        Args:
            data: The content.
            where: Its path, for messages.

        Raises:
            InputError: It is no report, or one of a newer version.
        """
        try:
            report = _ADAPTER.validate_json(data)
        except ValidationError as e:
            first = e.errors(include_url=False)[0]
            place = ".".join(str(part) for part in first["loc"]) or "the whole"
            raise InputError(
                f"not a report: {place}: {first['msg']}", where=where, remedy="build or verify again to write it anew"
            ) from e
        if report.schema_version > SCHEMA_VERSION:
            raise InputError(
                f"report of schema {report.schema_version}, this chipwise reads up to {SCHEMA_VERSION}",
                where=where,
                remedy="upgrade: pip install -U chipwise",
            )
        return report


_ADAPTER = TypeAdapter(Report)
