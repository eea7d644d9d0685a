"""HttpServer: uvicorn that drains when it is told to end."""

from __future__ import annotations

import asyncio
import functools
import signal
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import cast

import uvicorn
from anyio import to_thread
from starlette.applications import Starlette

from chipwise.errors import UnavailableError
from chipwise.serve.connection.crowd import Crowd
from chipwise.serve.connection.http_protocol import MAX_HEAD_BYTES, HttpProtocol
from chipwise.serve.connection.listener import BACKLOG
from chipwise.serve.exchange.terminals import Terminals
from chipwise.serve.loop.crew import Worker

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
# Once all answers are complete: how long clients may take to read them.
_READ_S = 5
# How long the step that runs when the grace time is over may still take.
_LAST_STEP_S = 5.0
# Idle connections are kept: a client that comes back within a minute opens none anew.
_KEEP_ALIVE_S = 65
_ACCEPTED_AT_ONCE = 8
# How old the date in a response's head may be.
_DATE_S = 1.0


class HttpServer(uvicorn.Server):
    """Serves an application until it is told to end, by Ctrl-C, SIGTERM or ``drain``.

    SIGHUP has what is served read anew, as of other servers; but when it says that the terminal is gone, that ends it.

    Then new requests are refused, those on their way may finish within the grace time, and the server ends. A second
    signal ends the process at once.
    """

    def __init__(
        self,
        app: Starlette,
        worker: Worker,
        *,
        grace_s: float,
        on_ready: Callable[[], None],
        on_drain: Callable[[], None],
        on_reload: Callable[[], object] = lambda: None,
        crowd: Crowd | None = None,
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                lifespan="off",
                # Of uvicorn's own choices none is a maker, but it calls what it is given.
                http=cast("type[asyncio.Protocol]", functools.partial(HttpProtocol, crowd=crowd or Crowd())),
                # So many are accepted at a stretch: each is counted before descriptors run out.
                backlog=_ACCEPTED_AT_ONCE,
                h11_max_incomplete_event_size=MAX_HEAD_BYTES,
                ws="none",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_keep_alive=_KEEP_ALIVE_S,
                timeout_graceful_shutdown=_READ_S,
            )
        )
        self._worker = worker
        self._grace_s = grace_s
        self._on_ready = on_ready
        self._on_drain = on_drain
        self._on_reload = on_reload
        self._terminals = Terminals()
        self._asyncio: asyncio.AbstractEventLoop | None = None
        self._owns_signals = False
        self._told_to_leave = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept connections, and say so."""
        self._asyncio = asyncio.get_running_loop()
        # Requests are read in threads; what these need is loaded with the first one.
        await to_thread.run_sync(_nothing)
        await super().startup(sockets)
        # uvicorn takes its backlog for the length of the kernel's queue, too.
        for listener in sockets or ():
            listener.listen(BACKLOG)
        self._on_ready()

    async def main_loop(self) -> None:
        """Wait until told to leave. uvicorn looks ten times a second, which wakes a board that has nothing to do."""
        # The first of its ticks is the one that renews the date.
        while not await self.on_tick(0):
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._told_to_leave.wait(), _DATE_S)

    def drain(self) -> None:
        """Begin to end. From any thread; calls after the first do nothing."""
        self._soon(self._drain)

    def leave(self) -> None:
        """End without waiting for answers. From any thread."""
        self._soon(self._leave)

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Drain on the first signal; the ones before are put back at the end."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop, before = (
            asyncio.get_running_loop(),
            {number: signal.getsignal(number) for number in (*_SIGNALS, signal.SIGHUP)},
        )
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._drain)
        loop.add_signal_handler(signal.SIGHUP, self._hang_up)
        self._owns_signals = True
        try:
            yield
        finally:
            self._release_signals(loop)
            for number, handler in before.items():
                signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _soon(self, call: Callable[[], None]) -> None:
        # A closed event loop means that the server has ended already.
        with suppress(RuntimeError):
            if self._asyncio is not None:
                self._asyncio.call_soon_threadsafe(call)

    def _drain(self) -> None:
        if self._worker.draining:
            return
        loop = asyncio.get_running_loop()
        self._release_signals(loop)
        self._worker.drain(self.leave)
        loop.call_later(self._grace_s, self._end_grace)
        self._on_drain()

    def _hang_up(self) -> None:
        if self._terminals.any_gone:
            self._drain()
        else:
            self._on_reload()

    def _end_grace(self) -> None:
        self._worker.abort(UnavailableError("the server shut down before the answer was complete"))
        # The abort takes effect after the step that runs; one that hangs is not waited for.
        asyncio.get_running_loop().call_later(_LAST_STEP_S, self._leave)

    def _leave(self) -> None:
        self.should_exit = True
        self._told_to_leave.set()

    def _release_signals(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let the next signal end the process, whatever it hangs in."""
        if self._owns_signals:
            self._owns_signals = False
            loop.remove_signal_handler(signal.SIGHUP)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            for number in _SIGNALS:
                loop.remove_signal_handler(number)
                signal.signal(number, signal.SIG_DFL)


def _nothing() -> None:
    """Does nothing."""
