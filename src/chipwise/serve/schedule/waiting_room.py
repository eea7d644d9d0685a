"""WaitingRoom: the sequences without a slot, with a bound a priority."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from chipwise.errors import OverloadedError
from chipwise.serve.request.limits import Limits
from chipwise.serve.request.priority import Priority
from chipwise.serve.request.sequence import Sequence

_LONGEST_RETRY_S = 60
# Nothing says when the hardware will have cooled down.
_SHED_RETRY_S = 10
# How much one more answer changes what is thought of how long they take.
_NEWS = 0.2


class WaitingRoom:
    """Takes requests as long as there is room, and says when to come back if there is none.

    Args:
        bounds: The most that may wait, by priority.
    """

    def __init__(self, bounds: Mapping[Priority, int]) -> None:
        self._bounds = dict(bounds)
        self._waiting: list[Sequence] = []
        self._service_s: float | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Sequence]:
        return iter(self._waiting)

    def __contains__(self, sequence: object) -> bool:
        return sequence in self._waiting

    def count(self, priority: Priority) -> int:
        """How many of a priority wait."""
        return sum(sequence.request.priority is priority for sequence in self._waiting)

    def take(self, sequence: Sequence, limits: Limits, *, running: int, places: int, free: int) -> None:
        """Let a new sequence wait.

        Args:
            sequence: The sequence.
            limits: What the hardware lets be done.
            running: How many run.
            places: How many of its kind may run at once.
            free: How many of those that wait will find a slot at once: they are not waiting, only not called yet.

        Raises:
            OverloadedError: As many of its priority wait as may, or its priority is shed.
        """
        priority = sequence.request.priority
        if limits.sheds(priority):
            raise OverloadedError(
                f"{priority.label} requests are turned away while the device protects itself",
                remedy="try again later",
                retry_after_s=_SHED_RETRY_S,
                shortage="board",
            )
        waiting = self.count(priority)
        if waiting - free >= self._bounds[priority]:
            raise OverloadedError(
                f"{running} requests run and {waiting} of priority {priority.label} wait, no more are taken",
                remedy="try again in a moment",
                retry_after_s=self._retry_after_s(places),
            )
        self._waiting.append(sequence)

    def put_back(self, sequence: Sequence) -> None:
        """Let one wait that was taken before: it counts, but is not refused."""
        self._waiting.append(sequence)

    def remove(self, sequence: Sequence) -> None:
        """One waits no more."""
        self._waiting.remove(sequence)

    def ended(self, service_s: float) -> None:
        """An answer is complete, and took this long from its first step on."""
        before_s = service_s if self._service_s is None else self._service_s
        self._service_s = before_s + _NEWS * (service_s - before_s)

    def _retry_after_s(self, places: int) -> int:
        """When a place may be free, in whole seconds: the measured time of an answer over the places; at least 1."""
        return max(1, min(_LONGEST_RETRY_S, math.ceil((self._service_s or 0.0) / places)))
