"""Loop: the one thread that owns the session."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from chipwise.errors import ChipwiseError, EngineError, UnavailableError
from chipwise.serve.loop.runner import Runner
from chipwise.serve.loop.ticket import Ticket
from chipwise.serve.observe.workload import Workload
from chipwise.serve.request.events import Outbox
from chipwise.serve.request.request import Request

# How often requests that cannot run now are looked after.
_LOOK_S = 0.05

_logger = logging.getLogger(__name__)


class Loop:
    """Runs a runner in a thread of its own, from ``start`` to ``stop``.

    Every method may be called from any thread. ``when_broken`` is called from the serving thread if it ends because
    of an error of chipwise's own; ``broken`` then holds it, and no request is taken any more.
    """

    def __init__(self, runner: Runner, when_broken: Callable[[], None]) -> None:
        self._runner = runner
        self._when_broken = when_broken
        self._wake = threading.Event()
        # A daemon: a step that hangs in a runtime must not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name="chipwise-session", daemon=True)
        self._stopping = False
        self.draining = False
        """Whether requests are no longer taken."""
        self._abort_with: ChipwiseError | None = None
        self._when_idle: Callable[[], None] | None = None
        self.broken: Exception | None = None

    @property
    def healthy(self) -> bool:
        """Whether requests can be expected to be answered."""
        return self.broken is None and self._runner.healthy

    def workload(self) -> Workload:
        """What there is to do, and what was done."""
        return self._runner.workload()

    @property
    def down(self) -> bool:
        """Whether the engine's process is lost and not expected back."""
        return self._runner.down

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def submit(self, request: Request, outbox: Outbox) -> Ticket:
        """Take a request.

        Raises:
            OverloadedError: There is no room for it.
            UnavailableError: The server is shutting down, or the loop has broken.
        """
        self.require_open()
        ticket = self._runner.submit(request, outbox)
        self._wake.set()
        return ticket

    def require_open(self) -> None:
        """Check that requests are taken.

        Raises:
            UnavailableError: The server is shutting down, or the loop has broken.
        """
        if self.broken is not None:
            raise UnavailableError("the server is broken and takes no requests", remedy="see its log, restart it")
        if self.draining:
            raise UnavailableError("the server is shutting down and takes no requests", remedy="try again later")

    def adopt(self, ticket: Ticket) -> bool:
        """Take a request that another loop could not answer; False if this one has ended."""
        if self.broken is not None or self._stopping:
            return False
        self._runner.adopt(ticket)
        self._wake.set()
        return True

    def cancel(self, ticket: Ticket) -> None:
        """Give up a request; its slot is free at the next token. One that is over already may be named."""
        self._runner.cancel(ticket)
        self._wake.set()

    def drain(self, when_idle: Callable[[], None]) -> None:
        """Take no more requests, and call back (from the thread) once those on their way are answered."""
        self._when_idle = when_idle
        self.draining = True
        self._wake.set()

    def abort(self, error: ChipwiseError) -> None:
        """Answer all requests on their way with an error, after the step that runs."""
        self._abort_with = error
        self._wake.set()

    def stop(self, timeout_s: float) -> bool:
        """End the thread after the step that runs; False if it did not end in time."""
        self.draining = self._stopping = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def turn(self) -> bool:
        """Run one step in the caller's thread; False if there was nothing to do. For the thread, and virtual time."""
        error, self._abort_with = self._abort_with, None
        if error is not None:
            self._runner.fail_all(error)
        if self._runner.step():
            return True
        when_idle = self._when_idle
        if when_idle is not None and self._runner.idle:
            self._when_idle = None
            when_idle()
        return False

    def _run(self) -> None:
        try:
            while not self._stopping:
                # Cleared before the look for work, so that what comes after the look sets it again.
                self._wake.clear()
                if not self.turn():
                    # Those that wait for the hardware's limits to be lifted have deadlines.
                    self._wake.wait(None if self._runner.idle else _LOOK_S)
        except Exception as e:
            _logger.exception("the serving loop broke")
            self.broken = e
            try:
                self._runner.fail_all(EngineError(f"the serving loop broke ({type(e).__name__}: {e})"))
            finally:
                self._when_broken()
