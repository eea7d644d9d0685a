"""Mailbox: brings a request's events from the serving threads into asyncio."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TypeAlias

from chipwise.serve.events import Event, Outbox, Piece

Delivery: TypeAlias = tuple[int, Event]
"""An event, and the index of the choice it belongs to."""


class Mailbox:
    """The events of one request's choices, each choice's in order. Made and read inside an event loop.

    Args:
        at_once: Whether to keep a choice's pieces back until it is over: whoever waits for the whole need not be
            woken, nor the serving thread disturbed, at every token.
    """

    def __init__(self, *, at_once: bool = False) -> None:
        self._loop = asyncio.get_running_loop()
        self._arrived: asyncio.Queue[list[Delivery]] = asyncio.Queue()
        self._at_once = at_once

    def outbox(self, choice: int = 0) -> Outbox:
        """What takes the events of one choice. Filled from any one thread; others may fill those of other choices."""
        kept: list[Delivery] = []

        def put(event: Event) -> None:
            kept.append((choice, event))
            if self._at_once and isinstance(event, Piece):
                return
            deliveries = kept.copy()
            kept.clear()
            # A closed event loop has no readers left: the server has shut down around this request.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._arrived.put_nowait, deliveries)

        return put

    async def get(self) -> list[Delivery]:
        """The next events: waits for one, and gives all there are, so that a slow reader catches up."""
        deliveries = await self._arrived.get()
        while not self._arrived.empty():
            deliveries += self._arrived.get_nowait()
        return deliveries
