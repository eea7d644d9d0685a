"""Mailbox: brings a request's events from the serving threads into asyncio."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TypeAlias

from chipwise.serve.request.events import Event, Outbox, Piece, Wake

Delivery: TypeAlias = tuple[int, Event]
"""An event, and the index of the choice it belongs to."""


class Postman:
    """Carries events of many mailboxes into one event loop, which one call wakes for all of them."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._bag: deque[tuple[Mailbox, Delivery]] = deque()

    def serve_running_loop(self) -> None:
        """Carry into the event loop that runs. Called by every mailbox that is made.

        Raises:
            RuntimeError: Another event loop is served, and still open.
        """
        loop = asyncio.get_running_loop()
        if self._loop is not None and self._loop is not loop and not self._loop.is_closed():
            raise RuntimeError("a postman serves one event loop")
        self._loop = loop

    def take(self, mailbox: Mailbox, delivery: Delivery) -> None:
        """Take an event along. From any thread; it is delivered by the next round."""
        self._bag.append((mailbox, delivery))

    def set_out(self) -> None:
        """Deliver what was taken. From any thread."""
        try:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._deliver)
        except RuntimeError:
            # A closed event loop has no readers left: the server has shut down around these requests.
            self._bag.clear()

    def _deliver(self) -> None:
        bag = self._bag
        while bag:
            mailbox, delivery = bag.popleft()
            mailbox.put(delivery)


class Mailbox:
    """The events of one request's choices, each choice's in order. Made and read inside an event loop.

    Args:
        postman: Who brings them.
        at_once: Whether to keep a choice's pieces back until it is over: whoever waits for the whole need not be
            woken, nor the serving thread disturbed, at every token.
    """

    def __init__(self, postman: Postman, *, at_once: bool = False) -> None:
        postman.serve_running_loop()
        self._postman = postman
        self._arrived: list[Delivery] = []
        self._reader: asyncio.Future[None] | None = None
        self._at_once = at_once

    def outbox(self, choice: int = 0) -> Outbox:
        """What takes the events of one choice. Filled from any one thread; others may fill those of other choices."""
        take, set_out = self._postman.take, self._postman.set_out
        if not self._at_once:

            def send(event: Event) -> Wake:
                take(self, (choice, event))
                return set_out

            return send
        kept: list[Delivery] = []

        def keep(event: Event) -> Wake | None:
            kept.append((choice, event))
            if isinstance(event, Piece):
                return None
            for delivery in kept:
                take(self, delivery)
            kept.clear()
            return set_out

        return keep

    def put(self, delivery: Delivery) -> None:
        """Let the reader have an event. In the event loop."""
        self._arrived.append(delivery)
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    async def get(self) -> list[Delivery]:
        """The next events: waits for one, and gives all there are, so that a slow reader catches up."""
        while not self._arrived:
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        arrived, self._arrived = self._arrived, []
        return arrived
