"""Mailbox: brings a request's events from the serving thread into asyncio."""

from __future__ import annotations

import asyncio
import contextlib

from chipwise.serve.events import Event, Piece


class Mailbox:
    """The events of one request, in order. Made and read inside an event loop, filled from any one thread.

    Args:
        at_once: Whether to keep pieces back until the answer is over: whoever waits for the whole need not be woken,
            nor the serving thread disturbed, at every token.
    """

    def __init__(self, *, at_once: bool = False) -> None:
        self._loop = asyncio.get_running_loop()
        self._arrived: asyncio.Queue[list[Event]] = asyncio.Queue()
        self._kept: list[Event] = []
        self._at_once = at_once

    def put(self, event: Event) -> None:
        """Add an event; the Outbox of a request."""
        self._kept.append(event)
        if self._at_once and isinstance(event, Piece):
            return
        events, self._kept = self._kept, []
        # A closed event loop has no readers left: the server has shut down around this request.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._arrived.put_nowait, events)

    async def get(self) -> list[Event]:
        """The next events: waits for one, and gives all there are, so that a slow reader catches up."""
        events = await self._arrived.get()
        while not self._arrived.empty():
            events += self._arrived.get_nowait()
        return events
