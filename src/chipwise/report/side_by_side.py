"""SideBySide: two bundles of one model, what each costs and where their answers differ."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import ClassVar, Literal

from pydantic import ConfigDict, TypeAdapter

from chipwise.report.environment import versions
from chipwise.report.measurement import Measurement
from chipwise.report.quality import Quality


@dataclass(frozen=True)
class Side:
    """One bundle.

    Attributes:
        name: Its name.
        target: The target it was built for.
        engine: The runtime it is for.
        size_bytes: Bytes of what its engine reads.
        decode: Tokens a second of one conversation; None if that was not measured.
        prefill: Tokens of a prompt read a second; None likewise.
        chipwise_version: The version that wrote it.
        created: When, ISO 8601 in UTC.
        outcome: What its own gate said; None if it has no report.
        drift_nats: Its mean KL divergence from the model as it was, by its own report; None if that has none.
    """

    name: str
    target: str
    engine: str
    size_bytes: int
    decode: Measurement | None
    prefill: Measurement | None
    chipwise_version: str
    created: str
    outcome: str | None = None
    drift_nats: float | None = None


@dataclass(frozen=True)
class Statement:
    """One thing that can be said of the second beside the first.

    Attributes:
        kind: ``worse``, ``better``, or ``even`` where no difference is shown.
        text: In one sentence without a full stop.
    """

    kind: Literal["worse", "better", "even"]
    text: str


@dataclass(frozen=True)
class SideBySide:
    """Two bundles.

    Attributes:
        a: The first.
        b: The second, which is spoken of.
        cases_from: Where the cases are from, in words.
        quality: Their answers to the same cases, the first in the reference's place; None if there are none.
        statements: What can be said: the dimensions, drift, size, speed.
        notes: What to bear in mind.
        versions: Versions by package.
        created: When, ISO 8601 in UTC.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(ser_json_inf_nan="strings")

    a: Side
    b: Side
    cases_from: str
    quality: Quality | None
    statements: tuple[Statement, ...]
    notes: tuple[str, ...] = ()
    versions: dict[str, str] = field(default_factory=versions)
    created: str = field(default_factory=lambda: datetime.now(timezone.utc).isoformat(timespec="seconds"))

    def to_json(self) -> bytes:
        """All of it as JSON."""
        return _ADAPTER.dump_json(self, indent=1) + b"\n"


_ADAPTER = TypeAdapter(SideBySide)
