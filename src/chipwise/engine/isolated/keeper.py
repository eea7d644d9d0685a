"""Keeper: the thread that starts an engine's process, waits for its end, and starts the next one."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, Protocol, TypeVar

from chipwise.background import considerate, in_background, is_background
from chipwise.engine.isolated.backoff import Backoff
from chipwise.engine.isolated.process import EngineProcess
from chipwise.engine.isolated.settings import Isolation
from chipwise.engine.restarts import EngineState
from chipwise.errors import ChipwiseError, EngineDownError, EngineError, EngineLostError


class Remote(Protocol):
    """What is open in a process."""

    @property
    def process(self) -> EngineProcess:
        """The process."""
        ...

    @property
    def facts(self) -> Any:
        """What it says of itself: the same after each restart."""
        ...


R = TypeVar("R", bound=Remote)

_FAILED_STARTS_UNTIL_DOWN = 2
_LONG_WAIT_S = 5.0
# A start may find the files out of the cache, or the board slower, than the first one did.
_START_FACTOR = 5.0
_LEAST_START_S = 30.0
_END_S = 10.0

_logger = logging.getLogger(__name__)


class Keeper(Generic[R]):
    """Keeps one process of an engine up, from the constructor to ``close``.

    It owns a thread that lives as long, since the kernel ends a process with the thread that started it.

    Args:
        connect: Opens it in a fresh process, within so many seconds.
        isolation: How the process is watched.
        prove: Runs a self-test in what was opened before it is used, and raises what is wrong.

    Raises:
        ChipwiseError: What the first start raised.
    """

    def __init__(
        self, connect: Callable[[EngineProcess, float], R], isolation: Isolation, prove: Callable[[R], None]
    ) -> None:
        self._connect, self._isolation, self._prove = connect, isolation, prove
        # Of who asks; the thread that starts processes would not know. Whatever comes after the first is waited for.
        self._first_in_background = is_background()
        self._backoff = Backoff(isolation.backoff)
        self._changed = threading.Condition()
        self._process: EngineProcess | None = None
        self._remote: R | None = None
        self._taken: R | None = None
        self._closing = False
        self._failed: ChipwiseError | None = None
        self._trouble = ""
        self._failed_starts = 0
        self._waits_long = False
        self._lost_s: float | None = None
        self._patience_s, self._start_s = isolation.patience_s, isolation.start_timeout_s
        self.restarts = 0
        self.facts: Any = None
        self._thread = threading.Thread(target=self._run, name="chipwise-engine-keeper", daemon=True)
        self._thread.start()
        self._await_first()

    @property
    def state(self) -> EngineState:
        """See ``Restarts.state``."""
        with self._changed:
            if self._remote is not None and self._remote.process.alive:
                return "up"
            waited_s = 0.0 if self._lost_s is None else time.monotonic() - self._lost_s
            hopeless = self._waits_long or self._failed_starts >= _FAILED_STARTS_UNTIL_DOWN
            return "down" if hopeless or waited_s > self._patience_s else "restarting"

    @property
    def trouble(self) -> str:
        """See ``Restarts.trouble``."""
        return "" if self.state == "up" else self._trouble or "its process has ended"

    def current(self) -> R:
        """What is open in the process that is up. Whoever takes it has to dispose of it.

        Raises:
            EngineLostError: None is up.
        """
        with self._changed:
            if self._remote is None or not self._remote.process.alive:
                raise EngineLostError(f"the engine is being restarted: {self._trouble}")
            self._taken = self._remote
            return self._remote

    def await_current(self) -> R:
        """The same, once the next process is up, if it is expected.

        Raises:
            EngineDownError: It did not come.
        """
        with self._changed:
            waited_s = 0.0 if self._lost_s is None else time.monotonic() - self._lost_s
            left_s = max(0.0, self._patience_s - waited_s)
            self._changed.wait_for(lambda: self._closing or self.state != "restarting", left_s)
            try:
                return self.current()
            except EngineLostError as e:
                raise EngineDownError(self._trouble or "its process has ended") from e

    def close(self) -> None:
        """End the process and the thread."""
        with self._changed:
            self._closing = True
            process = self._process
            self._changed.notify_all()
        if process is not None:
            process.kill("it was closed")
        self._thread.join(_END_S)

    def _await_first(self) -> None:
        try:
            with self._changed:
                self._changed.wait_for(lambda: self.facts is not None or self._failed is not None)
        except BaseException:
            self.close()
            raise
        if self._failed is not None:
            self._thread.join(_END_S)
            raise self._failed

    def _run(self) -> None:
        while not self._closing:
            started_s = time.monotonic()
            try:
                remote = self._start()
            except ChipwiseError as e:
                self._note_failure(e)
                ran_s = 0.0
                if self._failed is not None:
                    return
            else:
                ran_s = self._watch(remote, started_s)
            if not self._closing:
                self._pause(ran_s)

    def _start(self) -> R:
        """A process that has opened its session and proven it; none is left if that fails."""
        process = EngineProcess()
        with self._changed:
            self._process = process
            if self._closing:
                process.kill("it was closed")
        try:
            with self._considerate(process.pid):
                remote = self._connect(process, self._start_s)
            self._require_same(remote.facts)
            self._prove(remote)
        except BaseException as e:
            process.kill("its start failed")
            process.ended.wait(_END_S)
            process.dispose()
            if isinstance(e, ChipwiseError):
                raise
            raise EngineError(f"the engine's start failed ({type(e).__name__}: {e})") from e
        return remote

    @contextmanager
    def _considerate(self, pid: int) -> Iterator[None]:
        if self.facts is not None or not self._first_in_background:
            yield
            return
        with in_background(), considerate(pid):
            yield

    def _require_same(self, facts: Any) -> None:
        if self.facts not in (None, facts):
            raise EngineError("the engine opened as another one than before")

    def _watch(self, remote: R, started_s: float) -> float:
        """Let a process be used until it ends; how long it was, in seconds."""
        up_s = time.monotonic()
        with self._changed:
            if self.facts is None:
                took_s = up_s - started_s
                self._patience_s = max(self._patience_s, self._isolation.patience_factor * took_s)
                self._start_s = max(_LEAST_START_S, _START_FACTOR * took_s)
            else:
                self.restarts += 1
                _logger.warning("the engine runs again after %.1f s", up_s - (self._lost_s or started_s))
            self.facts, self._remote = remote.facts, remote
            self._failed_starts, self._waits_long, self._lost_s, self._trouble = 0, False, None, ""
            self._changed.notify_all()
        remote.process.ended.wait()
        with self._changed:
            self._remote, self._lost_s = None, time.monotonic()
            self._trouble = remote.process.loss().what
            if self._taken is not remote:
                remote.process.dispose()
        if not self._closing:
            _logger.error("%s", self._trouble)
        return time.monotonic() - up_s

    def _note_failure(self, error: ChipwiseError) -> None:
        with self._changed:
            self._failed_starts += 1
            self._trouble = f"the engine cannot be started again: {error.what}"
            if self.facts is None:
                self._failed = error
            elif not self._closing:
                _logger.error("%s", self._trouble)
            self._changed.notify_all()

    def _pause(self, ran_s: float) -> None:
        wait_s = self._backoff.wait_s(ran_s)
        with self._changed:
            self._waits_long = self._waits_long or wait_s > _LONG_WAIT_S
            # Who waits for it need not wait any longer, if that is long.
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._closing, wait_s)
