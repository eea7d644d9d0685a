"""Reading: one value as a board gave it, or why it is not known."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Reading:
    """One value and where it comes from. What is unknown has no value, never 0.

    Attributes:
        name: What it is, e.g. ``temp_c/npu-thermal``; the end of its first part names the unit.
        value: The value in ``unit``; None if it is unknown.
        unit: ``C``, ``W``, ``B``, ``Hz``, or ``1`` for a ratio or a count.
        source: The file below the board's root, or the program, that says it.
        unknown: Why there is no value; empty if there is one.
        note: What was done to the value, or what it leaves out.
    """

    name: str
    value: float | None
    unit: str
    source: str
    unknown: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        """A reading has a finite value or a reason, and not both."""
        if (self.value is None) is (self.unknown == ""):
            raise ValueError(f"{self.name}: a reading has a value or says why not")
        if self.value is not None and not math.isfinite(self.value):
            raise ValueError(f"{self.name}: {self.value} is no value")


def unknown(name: str, unit: str, source: str, why: str) -> Reading:
    """A value that could not be read, and why."""
    return Reading(name, None, unit, source, unknown=why)
