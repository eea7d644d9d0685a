"""Verdict: what a gate says of one metric, with the threshold it was held against."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Verdict:
    """The outcome of one threshold of a gate.

    Attributes:
        metric: The metric's name, e.g. ``top1_agreement``.
        value: The value measured.
        threshold: The value it is held against.
        direction: ``min`` if the value must be at least the threshold, ``max`` if at most.
        passed: Whether it holds.
    """

    metric: str
    value: float
    threshold: float
    direction: Literal["min", "max"]
    passed: bool

    @classmethod
    def judge(cls, metric: str, value: float, threshold: float, direction: Literal["min", "max"]) -> Verdict:
        """Hold a value against its threshold; a NaN never passes."""
        passed = value >= threshold if direction == "min" else value <= threshold
        return cls(metric, value, threshold, direction, passed)

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
        return f"{'pass' if self.passed else 'FAIL'} {self.metric} {self.value:.4g} ({need})"
