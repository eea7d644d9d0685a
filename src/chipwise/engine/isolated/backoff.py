"""Backoff: how long to wait before a process is started again. Pure: the time is passed in."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BackoffRules:
    """How the waiting grows.

    Attributes:
        first_s: The wait after the second trouble in a row; after the first there is none.
        growth: How much longer each further one is.
        longest_s: The longest.
        calm_s: A process that ran for so long without trouble makes the next one the first again.
    """

    first_s: float = 0.5
    growth: float = 2.0
    longest_s: float = 60.0
    calm_s: float = 60.0


class Backoff:
    """Counts troubles in a row: losses of a process, and starts that failed."""

    def __init__(self, rules: BackoffRules | None = None) -> None:
        self._rules = rules or BackoffRules()
        self._troubles = 0

    def wait_s(self, ran_s: float) -> float:
        """How long to wait now.

        Args:
            ran_s: How long the process ran before it was lost; 0 for a start that failed.
        """
        rules = self._rules
        self._troubles = 1 if ran_s >= rules.calm_s else self._troubles + 1
        if self._troubles == 1:
            return 0.0
        # Beyond this the power would overflow long after it has passed the limit.
        return min(rules.longest_s, rules.first_s * rules.growth ** min(self._troubles - 2, 64))
