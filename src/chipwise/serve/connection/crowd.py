"""Crowd: how many connections are held at once, so that those who only hold one keep nobody out."""

from __future__ import annotations

import logging
import resource
import time
from collections.abc import Callable, Sequence
from typing import Protocol

# Descriptors that are left for all that is no connection: files of a bundle that is opened, an engine's process, and
# connections that were accepted a moment ago and are not counted yet.
_SPARE = 64
# How often it is said that connections were closed.
_TELL_S = 60.0

_logger = logging.getLogger(__name__)


class Guest(Protocol):
    """One connection."""

    @property
    def idle_since_s(self) -> float | None:
        """Since when it has no request, on any clock; None while it has one."""
        ...

    def show_out(self) -> None:
        """Close it at once."""
        ...


class Crowd:
    """Closes connections that have been without a request for longest, where there are more than there may be.

    A process that has no descriptor left accepts nobody, neither a health check nor an emergency, as long as the others
    stay; so those go.

    Args:
        most: How many there may be; None for what the process's limit of descriptors leaves.
        clock: The time in seconds.
    """

    def __init__(self, most: int | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._told_s = -float("inf")

    @property
    def most(self) -> int:
        """How many there may be."""
        if self._most is not None:
            return self._most
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return max(soft - _SPARE, soft // 2)

    def admit(self, guest: Guest, everybody: Sequence[Guest]) -> bool:
        """Make room for one who came; False if all others have requests, and there is none.

        Args:
            guest: Who came.
            everybody: All there are, who came among them.
        """
        most = self.most
        if len(everybody) <= most:
            return True
        if (now_s := self._clock()) - self._told_s >= _TELL_S:
            self._told_s = now_s
            _logger.warning("%d connections are open, as many as may be: those without a request are closed", most)
        idle = [(since_s, i) for i, one in enumerate(everybody) if (since_s := one.idle_since_s) is not None]
        longest = min(((since_s, i) for since_s, i in idle if everybody[i] is not guest), default=None)
        if longest is None:
            return False
        everybody[longest[1]].show_out()
        return True
