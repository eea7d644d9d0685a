"""Rescue: where requests go when the engine fails them, and whether new ones are sent to it at all."""

from __future__ import annotations

import threading
from collections.abc import Callable

from chipwise.serve.faults.breaker import STATES, Breaker
from chipwise.serve.loop.ticket import Ticket


class Rescue:
    """A breaker on the engine, and the way to the fallback. Every method may be called from any thread.

    Args:
        adopt: Gives a request to the fallback; False if it takes none any more.
        clock: The time in seconds.
        breaker: Decides whether the engine is asked.
    """

    def __init__(
        self, adopt: Callable[[Ticket], bool], clock: Callable[[], float], breaker: Breaker | None = None
    ) -> None:
        self._adopt = adopt
        self._clock = clock
        self._breaker = breaker or Breaker()
        self._lock = threading.Lock()
        self.n_taken = 0
        """Requests that the fallback took, on their way or from their start."""

    @property
    def state(self) -> int:
        """The breaker's state: 0 closed, 1 half open, 2 open."""
        return STATES.index(self._breaker.state)

    @property
    def open(self) -> bool:
        """Whether the engine is asked nothing at present."""
        return self._breaker.state == "open"

    def allows(self) -> bool:
        """Whether the next request goes to the engine."""
        with self._lock:
            return self._breaker.allows(self._clock())

    def faulted(self) -> None:
        """A step of the engine failed, or gave nonsense."""
        with self._lock:
            self._breaker.faulted(self._clock())

    def answered(self) -> None:
        """The engine took a request to its end."""
        with self._lock:
            self._breaker.answered()

    def take(self, ticket: Ticket) -> bool:
        """Let a request that is no one's now go on in the fallback; False if that takes none any more."""
        self.count()
        return self._adopt(ticket)

    def count(self) -> None:
        """The fallback took a request."""
        with self._lock:
            self.n_taken += 1
