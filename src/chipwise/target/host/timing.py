"""Timing a short piece of work several times within a budget."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """How long the runs took.

    Attributes:
        best_s: The shortest: what the hardware can do. Longer ones show what else the machine was doing.
        median_s: The median.
        n: How many runs.
    """

    best_s: float
    median_s: float
    n: int

    def note(self) -> str:
        """What to write beside the figure."""
        return f"best of {self.n} runs, the median took {100 * (self.median_s / self.best_s - 1):.0f} % longer"


def repeat(work: Callable[[], object], budget_s: float, *, at_least: int = 3, at_most: int = 15) -> Timing:
    """Run ``work`` once to warm up, then again and again until the budget is spent."""
    work()
    runs: list[float] = []
    end = time.perf_counter() + budget_s
    while len(runs) < at_least or (len(runs) < at_most and time.perf_counter() < end):
        start = time.perf_counter()
        work()
        runs.append(max(time.perf_counter() - start, 1e-9))
    return Timing(min(runs), statistics.median(runs), len(runs))
