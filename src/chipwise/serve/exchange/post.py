"""Post: the place of a model in a server, held by one at a time, which can be exchanged for another."""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from chipwise.errors import ChipwiseError
from chipwise.serve.loop.crew import Worker
from chipwise.serve.models.allocator import give_back_what_is_free
from chipwise.serve.observe.workload import Workload
from chipwise.serve.turns.turns import Turns

# How long a step may still run when its model is to go, before somebody is told.
_LAST_STEP_S = 5.0
# How long an emergency may keep the memory of what has gone, which others may need.
_CALM_S = 5.0
# How soon one that ends later is found.
_LOOK_S = 1.0

_logger = logging.getLogger(__name__)


class Runs(Worker, Protocol):
    """A worker of one model."""

    @property
    def broken(self) -> Exception | None:
        """The error of chipwise's own that ended it."""
        ...

    def workload(self) -> Workload:
        """What there is to do, and what was done."""
        ...


class Holder(Protocol):
    """A model with all that answers its requests."""

    @property
    def name(self) -> str:
        """What its answers call it."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """What requests may call it, the one for lists first."""
        ...

    @property
    def fingerprint(self) -> str | None:
        """Changes whenever its answers might; None if unknown."""
        ...

    @property
    def loop(self) -> Runs:
        """What runs it."""
        ...

    def close(self) -> None:
        """Give all its memory back, and its engine's process. Once the loop has ended."""
        ...


H = TypeVar("H", bound=Holder)


@dataclass(eq=False)
class _Held(Generic[H]):
    """One that holds the post, or held it.

    Attributes:
        service: What it is.
        taken: Requests that are being read for it, and that it does not know of yet.
        stuck: Whether nobody waits any more for the end of what it runs.
    """

    service: H
    taken: int = 0
    stuck: bool = False


def _no_farewell(_: Any) -> None:
    """Keeps nothing."""


class Post(Generic[H]):
    """Holds the model that answers new requests, and those that finish the ones they have: see ``Worker``.

    Every method may be called from any thread.

    Args:
        service: The first to hold it.
        turns: Those of all that hold it; None if they have none in common.
        farewell: Called with each whose loop has ended, before its memory is given back.
    """

    def __init__(self, service: H, turns: Turns | None = None, *, farewell: Callable[[H], None] = _no_farewell) -> None:
        self._holder = _Held(service)
        self._turns, self._farewell = turns or Turns(), farewell
        self._leaving: list[_Held[H]] = []
        self._changed = threading.Condition()
        self._dismissals: list[threading.Thread] = []
        self._started = self._ending = self._drained = False
        self._when_idle: Callable[[], None] | None = None
        self._done = Workload()

    @property
    def current(self) -> H:
        """What answers new requests. A request that goes on with it takes it by ``taken``."""
        return self._holder.service

    @property
    def leaving(self) -> tuple[H, ...]:
        """What was exchanged and still answers requests, or still holds memory."""
        with self._changed:
            return tuple(holder.service for holder in self._leaving)

    @contextmanager
    def taken(self) -> Iterator[H]:
        """What answers a request that begins now. It takes requests until this is left, whatever is exchanged."""
        with self._changed:
            holder = self._holder
            holder.taken += 1
        try:
            yield holder.service
        finally:
            with self._changed:
                holder.taken -= 1
                self._changed.notify_all()

    def exchange(self, service: H) -> bool:
        """Let another one answer new requests; the one before finishes those it has, and gives its memory back.

        Returns:
            Whether it was done: false once the server ends, and then the other one is as it was.

        Raises:
            RuntimeError: The system has no more threads. All is as it was.
        """
        with self._changed:
            if self._ending or self._when_idle is not None:
                return False
            before, holder = self._holder, _Held(service)
            dismissal = threading.Thread(target=self._dismiss, args=(before,), name="chipwise-dismissal", daemon=True)
            # Under the lock, so that nobody joins one that was not started; and both before anything has changed.
            try:
                if self._started:
                    service.loop.start()
                dismissal.start()
            except RuntimeError:
                service.loop.stop(_LAST_STEP_S)
                raise
            self._holder = holder
            self._leaving.append(before)
            self._dismissals = [*(one for one in self._dismissals if one.is_alive()), dismissal]
        return True

    def workload(self) -> Workload:
        """What all of them have to do, and what they and those that are gone have done."""
        with self._changed:
            workload, current = self._done, self._holder.service
            leaving = [holder.service for holder in self._leaving]
        for service in leaving:
            workload = service.loop.workload().beside(workload)
        return current.loop.workload().beside(workload)

    @property
    def healthy(self) -> bool:
        """Whether new requests can be expected to be answered."""
        return self.current.loop.healthy

    @property
    def draining(self) -> bool:
        """Whether requests are no longer taken."""
        return self.current.loop.draining

    @property
    def broken(self) -> Exception | None:
        """The error of chipwise's own that ended a loop."""
        return next((one.loop.broken for one in self._all() if one.loop.broken is not None), None)

    def start(self) -> None:
        """Start the threads."""
        with self._changed:
            self._started = True
            self.current.loop.start()

    def drain(self, when_idle: Callable[[], None]) -> None:
        """Take no more requests, and call back (from a thread) once those on their way are answered."""
        with self._changed:
            self._when_idle = when_idle
        self.current.loop.drain(self._note_drained)

    def abort(self, error: ChipwiseError) -> None:
        """Answer all requests on their way with an error, after the steps that run."""
        for service in self._all():
            service.loop.abort(error)

    def stop(self, timeout_s: float) -> bool:
        """End the threads after the steps that run; False if one did not end in time."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
            self._turns.look_again()
            dismissals = tuple(self._dismissals)
        ended = [service.loop.stop(timeout_s) for service in self._all()]
        for dismissal in dismissals:
            dismissal.join(timeout_s)
        return all(ended) and not any(dismissal.is_alive() for dismissal in dismissals)

    def close(self) -> None:
        """Give the last one's memory back. Once all threads have ended."""
        self._part_with(self.current)

    def _all(self) -> tuple[H, ...]:
        return (self.current, *self.leaving)

    def _note_drained(self) -> None:
        """The last one to hold the post has answered all it had."""
        with self._changed:
            self._drained = True
        self._tell_idle()

    def _tell_idle(self) -> None:
        """Call back, once, if nobody has anything left to answer."""
        with self._changed:
            if not self._drained or not all(holder.stuck for holder in self._leaving):
                return
            when_idle, self._when_idle = self._when_idle, _nothing
        if when_idle is not None:
            when_idle()

    def _dismiss(self, holder: _Held[H]) -> None:
        """Wait until one that was exchanged has answered its last request, and give its memory back."""
        service, idle = holder.service, threading.Event()

        def note_idle() -> None:
            idle.set()
            with self._changed:
                self._changed.notify_all()

        with self._changed:
            self._changed.wait_for(lambda: self._ending or not holder.taken)
        service.loop.drain(note_idle)
        with self._changed:
            self._changed.wait_for(lambda: self._ending or idle.is_set())
        self._await_calm()
        ended = service.loop.stop(_LAST_STEP_S)
        if not ended:
            _logger.error("%s does not end its last step, and keeps its memory until it does", service.name)
            # Its requests are over: the end of the server need not wait for it.
            holder.stuck = True
            self._tell_idle()
        # An engine in a process of its own is ended when it hangs.
        while not ended and not self._ending:
            ended = service.loop.stop(_LOOK_S)
        if ended:
            self._part_with(service)
        done = service.loop.workload()
        with self._changed:
            self._done = done.beside(self._done)
            self._leaving.remove(holder)
        self._tell_idle()
        self._await_calm()
        _tidy()

    def _part_with(self, service: H) -> None:
        """Let one keep what outlives it, and give its memory back; what fails there holds up nobody."""
        for part in (partial(self._farewell, service), service.close):
            try:
                part()
            except Exception:  # a disk, a runtime or a lack of memory raises what it likes
                _logger.exception("%s has gone, but not all that it held", service.name)

    def _await_calm(self) -> None:
        """Giving hundreds of MiB back, and collecting garbage, stops all threads for a moment: no emergency waits."""
        self._turns.await_calm(_CALM_S, lambda: self._ending)


def _nothing() -> None:
    """Tells nobody."""


def _tidy() -> None:
    """What is gone is given back, if the server chose to walk it only then.

    What it froze at its start is not walked again: that stops all threads for 40 ms, and finds nothing of a model but a
    chat template. What came later is not frozen, so that it goes with its model; it is little.
    """
    if gc.get_freeze_count():
        gc.collect()
    give_back_what_is_free()
