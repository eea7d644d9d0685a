"""Mailbox: brings a request's events from the serving thread into asyncio."""

from __future__ import annotations

import asyncio
import contextlib

from chipwise.serve.events import Event


class Mailbox:
    """The events of one request, in order. Made and read inside an event loop, filled from any thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._events: asyncio.Queue[Event] = asyncio.Queue()

    def put(self, event: Event) -> None:
        """Add an event; the Outbox of a request."""
        # A closed event loop has no readers left: the server has shut down around this request.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._events.put_nowait, event)

    async def get(self) -> list[Event]:
        """The next events: waits for one, and gives all there are, so that a slow reader catches up."""
        events = [await self._events.get()]
        while not self._events.empty():
            events.append(self._events.get_nowait())
        return events
