"""Ageing: how urgent a request counts after it has waited, so that nothing waits for ever."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

from chipwise.serve.request.priority import Priority
from chipwise.serve.request.sequence import Sequence

Rank: TypeAlias = tuple[int, bool, bool, float, float, float, int]


@dataclass(frozen=True)
class Ageing:
    """How waiting raises a request.

    A request rises by one priority each ``interval_s``, up to INTERACTIVE; after one more interval it is overdue and
    goes before all but emergencies. What it had risen to it keeps for ``slice_tokens`` once it runs, so that it gets
    on before it can be displaced again.

    Attributes:
        interval_s: Waiting time for one priority.
        slice_tokens: How many tokens one that had risen generates as what it had risen to.
    """

    interval_s: float = 10.0
    slice_tokens: int = 32

    def waiting_level(self, sequence: Sequence, now_s: float) -> Priority:
        """How urgent a waiting request counts."""
        priority = sequence.request.priority
        if priority <= Priority.INTERACTIVE:
            return priority
        return Priority(max(Priority.INTERACTIVE, priority - self._steps(sequence, now_s)))

    def running_level(self, sequence: Sequence) -> Priority:
        """How urgent a running request counts against those that would displace it."""
        return sequence.level if sequence.known < sequence.level_until else sequence.request.priority

    def overdue(self, sequence: Sequence, now_s: float) -> bool:
        """Whether a request has waited as long as it may."""
        priority = sequence.request.priority
        return priority > Priority.EMERGENCY and self._steps(sequence, now_s) >= priority

    def rank(self, sequence: Sequence, now_s: float, served: float) -> Rank:
        """The order of those that wait, the least first.

        By level; those who had begun before those who had not; those overdue, by how long they wait; then the client
        that was served least, the nearest deadline, and the order of arrival.
        """
        request, overdue = sequence.request, self.overdue(sequence, now_s)
        return (
            self.waiting_level(sequence, now_s),
            sequence.started_s is None,
            not overdue,
            sequence.since_s if overdue else served,
            math.inf if request.deadline_s is None else request.deadline_s,
            request.arrived_s,
            sequence.serial,
        )

    def _steps(self, sequence: Sequence, now_s: float) -> int:
        return int((now_s - sequence.since_s) / self.interval_s)
