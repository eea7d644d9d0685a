"""Exchange: opens another model while one is served, and lets it take its post: a variant, or a whole bundle."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

from chipwise.background import in_background, is_background
from chipwise.bundle import Bundle, open_bundle
from chipwise.errors import BundleError, ChipwiseError, EngineError, RequestError, UnavailableError
from chipwise.serve.exchange.post import Holder
from chipwise.serve.exchange.seat import IN_WORDS, Seat, kind_of
from chipwise.serve.exchange.service import Service
from chipwise.serve.turns.spare_time import SpareTime
from chipwise.serve.turns.turns import Turns

Reason = Literal["variant", "bundle"]
"""Why a model is exchanged: the policy asks for another form of it, or an operator for another bundle."""

T = TypeVar("T")

# How long after a variant could not be opened it is tried again, if it is still wanted.
_RETRY_S = 60.0

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Exchanged:
    """What became of an order to serve another bundle.

    Attributes:
        service: What answers new requests now.
        path: The bundle's folder.
        changed: Whether it is another one than before.
        took_s: How long it took to open and test it.
    """

    service: Holder
    path: Path
    changed: bool
    took_s: float = 0.0


@dataclass
class ExchangeCounts:
    """What was exchanged since the start, and what could not be.

    Attributes:
        done: Exchanges, by their reason.
        failed: Those that came to nothing, by their reason.
    """

    done: dict[Reason, int] = field(default_factory=lambda: {"variant": 0, "bundle": 0})
    failed: dict[Reason, int] = field(default_factory=lambda: {"variant": 0, "bundle": 0})


class Exchange:
    """Brings models that are wanted to their posts, one at a time, in a thread of its own; see ``Worker`` for its end.

    What is served goes on being served until another one is open, has passed its self-test and fits into memory beside
    it. If that fails, it stays. ``want``, ``order`` and ``reread`` may be called from any thread.

    Args:
        seats: The posts, the bundles their holders came from, and how others are opened: one of a kind at most.
        free_bytes: What programs can still take now, in bytes; None if nobody knows.
        turns: Those of what is served, beside which models are opened; None if nothing is.
        clock: The time in seconds.
    """

    def __init__(
        self,
        seats: Sequence[Seat[Any]],
        *,
        free_bytes: Callable[[], float | None] = lambda: None,
        turns: Turns | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.seats = tuple(seats)
        self.chat: Seat[Service] | None = next((seat for seat in self.seats if seat.kind == "chat"), None)
        self._free_bytes, self._turns, self._clock = free_bytes, turns or Turns(), clock
        self._spare: SpareTime | None = None
        self._changed = threading.Condition()
        self._wanted: str | None = None
        self._orders: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._followed: Future[Any] | None = None
        self._retry_s = -float("inf")
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="chipwise-exchange", daemon=True)
        self.counts = ExchangeCounts()
        self.trouble = ""
        """Why the form of the language model that is wanted is not served, in one line; empty if it is."""
        for seat in self.seats:
            seat.on_bundle(seat.bundle)

    @property
    def n_leaving(self) -> int:
        """How many have given their place away, and finish what they have."""
        return sum(len(seat.post.leaving) for seat in self.seats)

    @property
    def active(self) -> str | None:
        """The variant of the language model that answers new requests; None for the form that it was built as."""
        return None if self.chat is None else self.chat.post.current.model.variant

    @property
    def variants(self) -> Mapping[str, Bundle]:
        """The other forms of the language model there are."""
        return {} if self.chat is None else self.chat.bundle.variants

    def want(self, variant: str | None) -> None:
        """Have a form of the language model answer new requests as soon as it can; None for the one it was built as."""
        with self._changed:
            if variant != self._wanted:
                self._wanted, self._retry_s, self.trouble = variant, -float("inf"), ""
                self._changed.notify_all()

    def order(self, path: Path | None = None, model: str | None = None) -> Future[Exchanged]:
        """Have another bundle answer new requests as soon as it can.

        Args:
            path: Its folder; None for the one that is served, which may hold another bundle by now.
            model: The served model that gives way, by a name that requests may call it; None for the one of the
                bundle's kind, or without a path for the only one.

        Returns:
            What becomes of it. Its exception is a ChipwiseError, and then all is as it was; a RequestError if nothing
            is served that the order could mean.
        """
        return self._enter(partial(self._follow_order, path, model))

    def reread(self) -> Future[tuple[Exchanged, ...]]:
        """Have what lies in the folders of all that are served answer new requests as soon as it can.

        Returns:
            What becomes of each. Its exception is a ChipwiseError, of the first that fails; the others are exchanged.
        """
        return self._enter(self._follow_folders)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def drain(self) -> None:
        """Exchange nothing more. Whoever waits for another bundle hears so now, also if it is being opened."""
        with self._changed:
            self._ending = True
            waiting = [future for _, future in self._orders if future.set_running_or_notify_cancel()]
            self._orders.clear()
            if self._followed is not None:
                waiting.append(self._followed)
            self._followed = None
            if self._spare is not None:
                self._spare.end()
            self._changed.notify_all()
        for future in waiting:
            future.set_exception(_ending())

    def stop(self, timeout_s: float) -> bool:
        """End the thread after what it opens now, which is then closed; False if it did not end in time."""
        self.drain()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def settle(self) -> None:
        """Do what is to be done, in the caller's thread; for the thread, and for time that is not real."""
        while not self._ending:
            with self._changed:
                order = self._orders.popleft() if self._orders else None
                # Once it runs, whoever waits for it cannot call it off.
                called_off = order is not None and not order[1].set_running_or_notify_cancel()
                self._followed = None if order is None or called_off else order[1]
                wanted = self._due()
            if called_off:
                continue
            if order is not None:
                self._answer(order[0])
            elif wanted != self.active:
                self._change_form(wanted)
            else:
                return

    def _enter(self, work: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()
        with self._changed:
            if self._ending:
                future.set_exception(_ending())
            else:
                self._orders.append((work, future))
                self._changed.notify_all()
        return future

    def _answer(self, work: Callable[[], Any]) -> None:
        """Follow an order, and tell who gave it, unless they were told that the server ends."""
        done: Any = None
        failed: ChipwiseError | None = None
        try:
            done = work()
        except ChipwiseError as e:
            failed = e
        with self._changed:
            future, self._followed = self._followed, None
        if future is None:
            return
        if failed is not None:
            future.set_exception(failed)
        else:
            future.set_result(done)

    def _run(self) -> None:
        while not self._ending:
            with in_background():
                self.settle()
            with self._changed:
                if not self._orders and self._due() == self.active and not self._ending:
                    self._changed.wait(_RETRY_S / 4 if self.trouble else None)

    def _due(self) -> str | None:
        """The form to be served now: the wanted one, unless there is none such or it failed a moment ago."""
        wanted = self._wanted if self._wanted in self.variants else None
        return wanted if self._clock() >= self._retry_s else self.active

    def _change_form(self, wanted: str | None) -> None:
        seat = self.chat
        if seat is None:
            return
        before, started_s = seat.post.current, self._clock()
        try:
            with _errors_of_ours(f"the form {wanted or 'main'!r}"):
                service = self._open(seat, seat.bundle, wanted, before.names)
                self.trouble = ""
                with self._changed:
                    given_up = self._due() != wanted
                if _seated(seat, service, unless=given_up):
                    self._note_done("variant", before, service, started_s)
        except ChipwiseError as e:
            self._note_failure("variant", e, [seat])
            self.trouble, self._retry_s = str(e), self._clock() + _RETRY_S

    def _follow_order(self, path: Path | None, model: str | None) -> Exchanged:
        """Serve another bundle, or what lies in the folder of one now."""
        meant: Sequence[Seat[Any]] = self.seats
        try:
            with _errors_of_ours(str(path or "the bundle")):
                if path is None:
                    (seat,) = meant = [self._seat_named(model)]
                    return self._follow(seat, open_bundle(seat.bundle.path))
                if model is not None:
                    meant = [self._seat_named(model)]
                bundle = open_bundle(path)
                (seat,) = meant = [self._seat_for(bundle)] if model is None else meant
                return self._follow(seat, bundle)
        except ChipwiseError as e:
            self._note_failure("bundle", e, meant)
            raise

    def _follow_folders(self) -> tuple[Exchanged, ...]:
        """Serve what lies in the folders now."""
        done: list[Exchanged] = []
        failed: list[ChipwiseError] = []
        for seat in self.seats:
            if self._ending:
                raise _ending()
            try:
                with _errors_of_ours(str(seat.bundle.path)):
                    done.append(self._follow(seat, open_bundle(seat.bundle.path)))
            except ChipwiseError as e:
                self._note_failure("bundle", e, [seat])
                failed.append(e)
        if failed:
            first = failed[0]
            if len(failed) > 1:
                first.what += f" (and {len(failed) - 1} more cannot be exchanged: see the log)"
            if names := ", ".join(one.service.name for one in done if one.changed):
                first.what += f" (exchanged all the same: {names})"
            raise first
        return tuple(done)

    def _follow(self, seat: Seat[Any], bundle: Bundle) -> Exchanged:
        started_s, before = self._clock(), seat.post.current
        if bundle.manifest == seat.bundle.manifest and seat.bundle.path.exists():
            # The same content, though perhaps a copy. Where the folder has moved away, an engine that is started anew,
            # or a fallback that is first needed, would look for its files in vain.
            seat.bundle = bundle
            return Exchanged(before, bundle.path, changed=False)
        seat.refuse_kind(bundle)
        self._refuse_name(seat, bundle)
        service = self._open(seat, bundle, None, seat.names_with(bundle))
        if not _seated(seat, service):
            raise _ending()
        seat.bundle = bundle
        if seat is self.chat:
            self.trouble, self._retry_s = "", -float("inf")
        seat.on_bundle(bundle)
        took_s = self._note_done("bundle", before, service, started_s)
        return Exchanged(service, bundle.path, changed=True, took_s=took_s)

    def _open(self, seat: Seat[Any], bundle: Bundle, variant: str | None, names: tuple[str, ...]) -> Any:
        spare = SpareTime(self._turns)
        with self._changed:
            self._spare = spare
            if self._ending or not is_background():
                # Who settles things in a thread of theirs, and in time that is not real, waits for them.
                spare.end()
        try:
            return seat.open_beside(bundle, variant, names, self._free_bytes(), spare)
        finally:
            with self._changed:
                self._spare = None
            spare.end()

    def _seat_named(self, model: str | None) -> Seat[Any]:
        """Where a model is served that requests may call so; without a name, the only one there is."""
        found = [seat for seat in self.seats if model is None or model in seat.post.current.names]
        if len(found) != 1:
            raise self._unclear("several models are served" if model is None else f"no model {model!r} is served")
        return found[0]

    def _seat_for(self, bundle: Bundle) -> Seat[Any]:
        """Where a model of a bundle's kind is served."""
        kind = kind_of(bundle)
        found = next((seat for seat in self.seats if seat.kind == kind), None)
        if found is None:
            raise self._unclear(f"the bundle holds a model of the kind {IN_WORDS[kind]}, and none is served")
        return found

    def _unclear(self, what: str) -> RequestError:
        served = ", ".join(f"{seat.name!r} ({IN_WORDS[seat.kind]})" for seat in self.seats)
        return RequestError(what, remedy=f"name one of those that are: {served}", code="invalid_value", param="model")

    def _refuse_name(self, seat: Seat[Any], bundle: Bundle) -> None:
        name = bundle.manifest.name
        if any(name in other.post.current.names for other in self.seats if other is not seat):
            raise BundleError(f"another model is served as {name!r}", where=str(bundle.path), remedy="build it anew")

    def _note_failure(self, reason: Reason, error: ChipwiseError, seats: Sequence[Seat[Any]]) -> None:
        self.counts.failed[reason] += 1
        names = ", ".join(seat.post.current.name for seat in seats)
        _logger.error("%s stay%s in service: %s", names, "s" if len(seats) == 1 else "", error)

    def _note_done(self, reason: Reason, before: Holder, service: Holder, started_s: float) -> float:
        self.counts.done[reason] += 1
        took_s = self._clock() - started_s
        _logger.warning(
            "%s answers new requests in place of %s; opened and tested in %.1f s", service, before.name, took_s
        )
        return took_s


def _seated(seat: Seat[Any], service: Any, *, unless: bool = False) -> bool:
    """Let an open model take a post, or close it: whether it took it."""
    taken = False
    try:
        taken = not unless and seat.post.exchange(service)
    finally:
        if not taken:
            service.close()
    return taken


@contextmanager
def _errors_of_ours(what: str) -> Iterator[None]:
    """Whatever a runtime or a disk raises becomes an error of chipwise's: the model that is served is sound."""
    try:
        yield
    except ChipwiseError:
        raise
    except Exception as e:
        _logger.exception("%s cannot be opened", what)
        raise EngineError(f"it cannot be opened ({type(e).__name__}: {e})", where=what) from e


def _ending() -> UnavailableError:
    return UnavailableError("the server is shutting down", remedy="serve the bundle anew")
