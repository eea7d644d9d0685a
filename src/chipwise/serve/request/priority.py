"""Priority: how urgent a request is."""

from __future__ import annotations

import enum


class Priority(enum.IntEnum):
    """How urgent a request is; a lower value goes first.

    ``EMERGENCY`` is never shed and waits for one step at most. ``INTERACTIVE`` has a person waiting. ``NORMAL`` is what
    a request without a priority gets. ``BACKGROUND`` takes what is left, and still never starves.
    """

    EMERGENCY = 0
    INTERACTIVE = 1
    NORMAL = 2
    BACKGROUND = 3

    @property
    def label(self) -> str:
        """Its name in requests, settings and metrics: ``emergency`` and so on."""
        return self.name.lower()
