"""Teller: tells clients what became of their requests, and wakes them once for all that a step says."""

from __future__ import annotations

from chipwise.serve.loop.ticket import Ticket
from chipwise.serve.request.events import Event, Wake


class Teller:
    """Puts events into outboxes. It belongs to the thread that owns the session.

    A reader that is woken takes the interpreter from this thread, and a core from the engine: so each is woken once a
    step, when this thread has nothing more to say.
    """

    def __init__(self) -> None:
        self._wakes: set[Wake] = set()

    def tell(self, ticket: Ticket, event: Event) -> None:
        """Tell a request's client something. It is read after ``wake``."""
        wake = ticket.outbox(event)
        if wake is not None:
            self._wakes.add(wake)

    def wake(self) -> None:
        """Wake those who were told something since the last time."""
        while self._wakes:
            self._wakes.pop()()
