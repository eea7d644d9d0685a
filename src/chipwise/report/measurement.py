"""Measurement: a number with its unit, its spread, and how it was come by."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Method = Literal["measured", "estimated", "simulated"]


@dataclass(frozen=True)
class Measurement:
    """A number that can be believed as far as its method goes.

    Attributes:
        name: What was measured, e.g. ``decode``.
        value: The median, in ``unit``.
        unit: The unit, e.g. ``tok/s``.
        n: How many runs the value is the median of.
        spread: Half the distance between the smallest and the largest run, in ``unit``.
        method: ``measured`` on hardware, ``estimated`` from a model, or ``simulated``.
        hardware: The machine it holds for.
    """

    name: str
    value: float
    unit: str
    n: int
    spread: float
    method: Method
    hardware: str

    def to_dict(self) -> dict[str, Any]:
        """The fields by name."""
        return asdict(self)

    def line(self) -> str:
        """One line of text for a terminal."""
        return f"{self.name}: {self.value:.4g} {self.unit} (±{self.spread:.2g}, n={self.n}, {self.method})"
