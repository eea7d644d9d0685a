"""Quantity and Fact: a number, or another statement, with its source."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Generic, TypeVar

from chipwise.target.provenance import Provenance
from chipwise.target.units import BASE_UNITS, human

T = TypeVar("T")


@dataclass(frozen=True)
class Quantity:
    """A number with its unit and source. What is unknown is no Quantity (None), never 0.

    Attributes:
        value: The number, finite and above 0, in ``unit``.
        unit: A base unit: B, B/s, Hz, s, W, op/s, MAC/cycle, token, or 1 for a count.
        provenance: Where the number comes from.
        note: What limits it, or what another source says.
    """

    value: float
    unit: str
    provenance: Provenance
    note: str = ""

    def __post_init__(self) -> None:
        """Refuse a number that stands for "unknown", and a unit that is not a base unit."""
        if not math.isfinite(self.value) or self.value <= 0:
            raise ValueError(f"value: expected a number above 0, got {self.value}; leave out what is unknown")
        if self.unit not in BASE_UNITS:
            raise ValueError(f"unit: expected one of {', '.join(sorted(BASE_UNITS))}, got {self.unit!r}")

    def __int__(self) -> int:
        return int(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def text(self) -> str:
        """The number as a person reads it: ``43.8 GB/s``."""
        return human(self.value, self.unit)


@dataclass(frozen=True)
class Fact(Generic[T]):
    """A statement that is no number (a choice, a list, yes or no) with its source.

    Attributes:
        value: What holds.
        provenance: Where it comes from.
        note: What limits it, or what another source says.
    """

    value: T
    provenance: Provenance
    note: str = ""

    def text(self) -> str:
        """The statement as a person reads it."""
        if isinstance(self.value, bool):
            return "yes" if self.value else "no"
        if isinstance(self.value, tuple):
            return ", ".join(str(v) for v in self.value)
        return str(self.value)
