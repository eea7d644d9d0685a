"""Lanes: the loop of the engine and that of its fallback, as one to whoever asks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from chipwise.errors import ChipwiseError
from chipwise.serve.loop.loop import Loop
from chipwise.serve.loop.rescue import Rescue
from chipwise.serve.loop.ticket import Ticket
from chipwise.serve.observe.workload import Workload
from chipwise.serve.request.events import Outbox
from chipwise.serve.request.request import Request


class Lanes:
    """Sends requests to the engine, or to the fallback while the breaker is open or the engine's process is down.

    Every method may be called from any thread.

    Args:
        main: The engine's loop.
        fallback: The fallback's loop; None if there is none.
        rescue: The way from the first to the second; None likewise.
    """

    def __init__(self, main: Loop, fallback: Loop | None = None, rescue: Rescue | None = None) -> None:
        self._main, self._fallback, self._rescue = main, fallback, rescue
        self._loops = (main,) if fallback is None else (main, fallback)

    @property
    def healthy(self) -> bool:
        """Whether requests can be expected to be answered."""
        return self.broken is None and any(loop.healthy for loop in self._loops)

    @property
    def draining(self) -> bool:
        """Whether requests are no longer taken."""
        return self._main.draining

    @property
    def broken(self) -> Exception | None:
        """The error of chipwise's own that ended a loop."""
        return next((loop.broken for loop in self._loops if loop.broken is not None), None)

    def workload(self) -> Workload:
        """What there is to do, and what was done."""
        workload = self._main.workload()
        if self._fallback is None or self._rescue is None:
            return workload
        running = self._fallback.workload().running
        return replace(workload, fallbacks=self._rescue.n_taken, fallback_running=running, breaker=self._rescue.state)

    def turn(self) -> bool:
        """Run one step of each in the caller's thread, for time that is not real; False if there was nothing to do."""
        turns = [loop.turn() for loop in self._loops]
        return any(turns)

    def start(self) -> None:
        """Start the threads."""
        for loop in self._loops:
            loop.start()

    def submit(self, request: Request, outbox: Outbox) -> Ticket:
        """Take a request.

        Raises:
            OverloadedError: There is no room for it.
            UnavailableError: The server is shutting down, or a loop has broken.
        """
        self._main.require_open()
        if self._fallback is None or self._rescue is None or (not self._main.down and self._rescue.allows()):
            return self._main.submit(request, outbox)
        ticket = self._fallback.submit(request, outbox)
        self._rescue.count()
        return ticket

    def cancel(self, ticket: Ticket) -> None:
        """Give up a request; its slot is free at the next token. One that is over already may be named."""
        for loop in self._loops:
            loop.cancel(ticket)

    def drain(self, when_idle: Callable[[], None]) -> None:
        """Take no more requests, and call back (from a thread) once those on their way are answered."""
        fallback = self._fallback
        # Only once the engine has none left, no more come to the fallback.
        self._main.drain(when_idle if fallback is None else lambda: fallback.drain(when_idle))

    def abort(self, error: ChipwiseError) -> None:
        """Answer all requests on their way with an error, after the steps that run."""
        for loop in self._loops:
            loop.abort(error)

    def stop(self, timeout_s: float) -> bool:
        """End the threads after the steps that run; False if one did not end in time."""
        ended = [loop.stop(timeout_s) for loop in self._loops]
        return all(ended)
