"""Restarts: an engine that may be lost with all it held, and comes back by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol, runtime_checkable

from chipwise.errors import EngineLostError

EngineState = Literal["up", "restarting", "down"]
"""It answers; it is expected back in a moment; it is not, though it is tried again from time to time."""


@runtime_checkable
class HasProcess(Protocol):
    """What runs in a process of its own, which is replaced when it is lost. All may be read from any thread."""

    @property
    def state(self) -> EngineState:
        """How it is."""
        ...

    @property
    def restarts(self) -> int:
        """How often a new process has taken the place of one that was lost."""
        ...

    @property
    def trouble(self) -> str:
        """Why it is not up, in one line; empty if it is."""
        ...


@runtime_checkable
class Restarts(HasProcess, Protocol):
    """A session whose engine runs in a process of its own.

    Once the process ended or hung, every call raises EngineLostError until ``renew`` is called: so nobody takes what a
    new process holds for what the old one held. All but the properties is for the session's owner.
    """

    def renew(self) -> EngineLostError | None:
        """Go on with a new process, as soon as there is one: what the slots held is gone.

        Returns:
            The loss; None if nothing was lost since the last call.
        """
        ...

    def while_waiting(self, look: Callable[[], None]) -> None:
        """Have something called again and again, in the owner's thread, while a call takes long."""
        ...
