"""Turns: while one model takes over from another, their engines run one step at a time, the more urgent first."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from chipwise.serve.priority import Priority

# Nobody waits longer for an engine that hangs, or for more urgent work without end.
_LONGEST_WAIT_S = 2.0


class Turns:
    """Hands out turns to whoever runs a step. One that runs alone hardly notices.

    Args:
        longest_wait_s: After this time a step is run whoever else runs.
    """

    def __init__(self, longest_wait_s: float = _LONGEST_WAIT_S) -> None:
        self._longest_wait_s = longest_wait_s
        self._changed = threading.Condition()
        self._running: set[tuple[Priority, int]] = set()
        self._waiting: set[tuple[Priority, int]] = set()
        self._serial = 0

    @contextmanager
    def take(self, priority: Priority) -> Iterator[None]:
        """Wait for a turn, and hold it.

        Args:
            priority: The most urgent of the requests that the step is for. Of equals the first that came is first.
        """
        with self._changed:
            self._serial += 1
            mine = (priority, self._serial)
            self._waiting.add(mine)
            free = self._changed.wait_for(
                lambda: not self._running and mine == min(self._waiting), self._longest_wait_s
            )
            if not free:
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
