"""Turns: while one model takes over from another, their engines run one step at a time, the more urgent first."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from chipwise.serve.request.priority import Priority

# Nobody waits longer for an engine that hangs, or for more urgent work without end.
_LONGEST_WAIT_S = 2.0
# After the least urgent request.
_SPARE = max(Priority) + 1


def _never() -> bool:
    return False


class Turns:
    """Hands out turns to whoever runs a step. One that runs alone hardly notices.

    It knows how many emergencies are on their way, from their arrival to their last token: so long those that have
    time do not begin.

    Args:
        longest_wait_s: After this time a step is run whoever else runs.
    """

    def __init__(self, longest_wait_s: float = _LONGEST_WAIT_S) -> None:
        self._longest_wait_s = longest_wait_s
        self._changed = threading.Condition()
        self._running: set[tuple[int, int]] = set()
        self._waiting: set[tuple[int, int]] = set()
        self._serial = self._emergencies = 0

    def arrive(self, priority: Priority) -> None:
        """A request is on its way; ``leave`` is to be called once for it."""
        if priority == Priority.EMERGENCY:
            with self._changed:
                self._emergencies += 1

    def leave(self, priority: Priority) -> None:
        """One that arrived has its answer, or is given up."""
        if priority == Priority.EMERGENCY:
            with self._changed:
                self._emergencies -= 1
                self._changed.notify_all()

    def await_calm(self, longest_s: float, unless: Callable[[], bool] = _never) -> None:
        """Wait until no emergency is on its way.

        Args:
            longest_s: How long.
            unless: Not while this holds; see ``look_again``.
        """
        with self._changed:
            self._changed.wait_for(lambda: not self._emergencies or unless(), longest_s)

    def look_again(self) -> None:
        """Have those that wait look whether they still should."""
        with self._changed:
            self._changed.notify_all()

    @contextmanager
    def take(self, priority: Priority) -> Iterator[None]:
        """Wait for a turn, and hold it.

        Args:
            priority: The most urgent of the requests that the step is for. Of equals the first that came is first.
        """
        with self._hold(priority):
            yield

    @contextmanager
    def spare(self, longest_s: float, unless: Callable[[], bool] = _never) -> Iterator[None]:
        """Wait for a turn that nobody else wants, and hold it; for a step that nobody waits for.

        Args:
            longest_s: How long it leaves the turn to emergencies that are on their way but wait for none now.
            unless: Not while this holds; see ``look_again``.
        """
        with self._hold(_SPARE, longest_s, unless):
            yield

    @contextmanager
    def _hold(self, rank: int, calm_s: float | None = None, unless: Callable[[], bool] = _never) -> Iterator[None]:
        with self._changed:
            self._serial += 1
            mine = (rank, self._serial)
            self._waiting.add(mine)
            if calm_s is not None:
                self._changed.wait_for(lambda: unless() or (not self._emergencies and self._is_next(mine)), calm_s)
            if not self._changed.wait_for(lambda: self._is_next(mine), self._longest_wait_s):
                # Whoever runs now hangs, for all that is known: those who come next do not wait for it again.
                self._running.clear()
            self._waiting.remove(mine)
            self._running.add(mine)
        try:
            yield
        finally:
            with self._changed:
                self._running.discard(mine)
                self._changed.notify_all()

    def _is_next(self, mine: tuple[int, int]) -> bool:
        return not self._running and mine == min(self._waiting)
