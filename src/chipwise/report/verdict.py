"""Verdict: what a gate says of one metric, with the threshold it was held against."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

Outcome = Literal["pass", "fail", "unclear"]


def together(verdicts: Iterable[Verdict]) -> Outcome:
    """The outcome of several: ``fail`` if any surely failed, ``pass`` only if all surely passed."""
    outcomes = {verdict.outcome for verdict in verdicts}
    return "fail" if "fail" in outcomes else "unclear" if "unclear" in outcomes else "pass"


@dataclass(frozen=True)
class Verdict:
    """The outcome of one threshold of a gate.

    Attributes:
        metric: The metric's name, e.g. ``top1_agreement``.
        value: The value measured.
        threshold: The value it is held against.
        direction: ``min`` if the value must be at least the threshold, ``max`` if at most.
        passed: Whether the value measured holds.
        sure: Whether there are enough cases to say so.
        more_cases: How many more it would take if they went like these; None if it is sure or no number would do.
    """

    metric: str
    value: float
    threshold: float
    direction: Literal["min", "max"]
    passed: bool
    sure: bool = True
    more_cases: int | None = None

    @classmethod
    def judge(cls, metric: str, value: float, threshold: float, direction: Literal["min", "max"]) -> Verdict:
        """Hold a value against its threshold; a NaN never passes."""
        passed = value >= threshold if direction == "min" else value <= threshold
        return cls(metric, value, threshold, direction, passed)

    @property
    def outcome(self) -> Outcome:
        """``pass``, ``fail``, or ``unclear``: not enough cases to tell."""
        if not self.sure:
            return "unclear"
        return "pass" if self.passed else "fail"

    @property
    def none_allowed(self) -> bool:
        """Whether nothing but zero passes, as for a count of cases that went wrong."""
        return self.direction == "max" and self.threshold == 0

    def to_dict(self) -> dict[str, Any]:
        """The fields by name."""
        return asdict(self)

    def line(self) -> str:
        """One line of text for a terminal."""
        sign = ">=" if self.direction == "min" else "<="
        need = "must be 0" if self.none_allowed else f"needs {sign} {self.threshold:g}"
        said = {"pass": "pass", "fail": "FAIL", "unclear": "UNCLEAR"}[self.outcome]
        return f"{said} {self.metric} {self.value:.4g} ({need}{self.missing})"

    @property
    def missing(self) -> str:
        """What is missing to be sure, to follow what is needed; empty if nothing is."""
        if self.sure:
            return ""
        more = f": about {self.more_cases} more" if self.more_cases else ""
        return f"; not enough cases to tell{more}"
