"""Limits: what the hardware lets the scheduler do now."""

from __future__ import annotations

from dataclasses import dataclass

from chipwise.serve.request.priority import Priority
from chipwise.serve.request.sequence import Sequence


@dataclass(frozen=True)
class Limits:
    """What a policy made of temperature, memory and load; the scheduler keeps to it from the next step on.

    Attributes:
        max_batch: The most requests that may run at once, at least 1; None for as many as there are slots.
        shed: Priorities that are turned away and of which no waiting request starts. ``EMERGENCY`` is served even if
            it is named here.
        only: The one that runs while all others wait; None for no such one.
    """

    max_batch: int | None = None
    shed: frozenset[Priority] = frozenset()
    only: Sequence | None = None

    def sheds(self, priority: Priority) -> bool:
        """Whether requests of a priority are turned away."""
        return priority is not Priority.EMERGENCY and priority in self.shed
