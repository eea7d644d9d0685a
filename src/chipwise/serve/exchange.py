"""Exchange: opens another model while one is served, and lets it take the post: a variant, or a whole bundle."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from chipwise.background import in_background, is_background
from chipwise.bundle import Bundle, open_bundle
from chipwise.errors import BundleError, ChipwiseError, EngineError, UnavailableError
from chipwise.serve.http.service import Service
from chipwise.serve.memory_need import need_bytes, refuse_too_large
from chipwise.serve.open_model import ModelOpener
from chipwise.serve.post import Post
from chipwise.serve.served_model import ServedModel
from chipwise.serve.spare_time import SpareTime
from chipwise.serve.turns import Turns

Reason = Literal["variant", "bundle"]
"""Why a model is exchanged: the policy asks for another form of it, or an operator for another bundle."""

# How long after a variant could not be opened it is tried again, if it is still wanted.
_RETRY_S = 60.0

_logger = logging.getLogger(__name__)

MakeService = Callable[[ServedModel, tuple[str, ...], Service], Service]
"""Makes a service of a model, of the names that requests may call it, and of what it takes over from."""


@dataclass(frozen=True)
class Exchanged:
    """What became of an order to serve another bundle.

    Attributes:
        service: What answers new requests now.
        path: The bundle's folder.
        changed: Whether it is another one than before.
        took_s: How long it took to open and test it.
    """

    service: Service
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
    """Brings the model that is wanted to the post, one at a time, in a thread of its own; see ``Worker`` for its end.

    What is served goes on being served until another one is open, has passed its self-test and fits into memory beside
    it. If that fails, it stays. ``want`` and ``order`` may be called from any thread.

    Args:
        post: Where the model is.
        bundle: The bundle it came from.
        opener: Opens models.
        make_service: Makes services of them.
        free_bytes: What programs can still take now, in bytes; None if nobody knows.
        taken_names: Names that no language model may have: others are served under them.
        on_bundle: Called with a bundle before it is served for the first time, the first one too.
        turns: Those of what is served, beside which models are opened; None if nothing is.
        clock: The time in seconds.
    """

    def __init__(
        self,
        post: Post,
        bundle: Bundle,
        opener: ModelOpener,
        make_service: MakeService,
        *,
        free_bytes: Callable[[], float | None] = lambda: None,
        taken_names: frozenset[str] = frozenset(),
        on_bundle: Callable[[Bundle], None] = lambda bundle: None,
        turns: Turns | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._post, self.bundle = post, bundle
        self._opener, self._make_service = opener, make_service
        self._free_bytes, self._taken_names, self._on_bundle = free_bytes, taken_names, on_bundle
        self._turns, self._clock = turns or Turns(), clock
        self._spare: SpareTime | None = None
        self._changed = threading.Condition()
        self._wanted: str | None = None
        self._orders: deque[tuple[Path | None, Future[Exchanged]]] = deque()
        self._followed: Future[Exchanged] | None = None
        self._retry_s = -float("inf")
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="chipwise-exchange", daemon=True)
        self.counts = ExchangeCounts()
        self.trouble = ""
        """Why the form that is wanted is not served, in one line; empty if it is."""
        on_bundle(bundle)

    @property
    def service(self) -> Service:
        """What answers new requests."""
        return self._post.current

    @property
    def n_leaving(self) -> int:
        """How many have given their place away, and finish what they have."""
        return len(self._post.leaving)

    @property
    def active(self) -> str | None:
        """The variant that answers new requests; None for the form that the bundle was built as."""
        return self._post.current.model.variant

    @property
    def variants(self) -> Mapping[str, Bundle]:
        """The other forms there are."""
        return self.bundle.variants

    def want(self, variant: str | None) -> None:
        """Have a form of the model answer new requests as soon as it can; None for the one the bundle was built as."""
        with self._changed:
            if variant != self._wanted:
                self._wanted, self._retry_s = variant, -float("inf")
                self._changed.notify_all()

    def order(self, path: Path | None = None) -> Future[Exchanged]:
        """Have another bundle answer new requests as soon as it can.

        Args:
            path: Its folder; None for the one that is served, which may hold another bundle by now.

        Returns:
            What becomes of it. Its exception is a ChipwiseError, and then all is as it was.
        """
        future: Future[Exchanged] = Future()
        with self._changed:
            if self._ending:
                future.set_exception(_ending())
            else:
                self._orders.append((path, future))
                self._changed.notify_all()
        return future

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

    def _answer(self, path: Path | None) -> None:
        """Serve another bundle, and tell who ordered it, unless they were told that the server ends."""
        done: Exchanged | ChipwiseError
        try:
            with _errors_of_ours(str(path or self.bundle.path)):
                done = self._follow(path)
        except ChipwiseError as e:
            done = e
            self._note_failure("bundle", e)
        with self._changed:
            future, self._followed = self._followed, None
        if future is None:
            return
        if isinstance(done, ChipwiseError):
            future.set_exception(done)
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
        before, started_s = self._post.current.model, self._clock()
        try:
            with _errors_of_ours(f"the form {wanted or 'main'!r}"):
                service = self._open(self.bundle, wanted, self._post.current.names)
        except ChipwiseError as e:
            self._note_failure("variant", e)
            self.trouble, self._retry_s = str(e), self._clock() + _RETRY_S
            return
        self.trouble = ""
        with self._changed:
            given_up = self._due() != wanted
        if given_up or not self._post.exchange(service):
            service.model.close()
            return
        self._note_done("variant", before, service, started_s)

    def _follow(self, path: Path | None) -> Exchanged:
        started_s, before = self._clock(), self._post.current.model
        bundle = open_bundle(path or self.bundle.path)
        if bundle.manifest == self.bundle.manifest:
            # The same content, though its folder may have moved or been replaced.
            self.bundle = bundle
            return Exchanged(self._post.current, bundle.path, changed=False)
        self._refuse_name(bundle)
        name = bundle.manifest.name
        names = (name, *(known for known in self._post.current.names if known != name))
        service = self._open(bundle, None, names)
        if not self._post.exchange(service):
            service.model.close()
            raise _ending()
        self.bundle, self.trouble, self._retry_s = bundle, "", -float("inf")
        self._on_bundle(bundle)
        took_s = self._note_done("bundle", before, service, started_s)
        return Exchanged(service, bundle.path, changed=True, took_s=took_s)

    def _open(self, bundle: Bundle, variant: str | None, names: tuple[str, ...]) -> Service:
        form = bundle if variant is None else bundle.variants[variant]
        opener = self._opener
        resident = opener.fallback == "resident"
        need = need_bytes(form, opener.n_slots, opener.context(form), with_fallback=resident)
        refuse_too_large(form, need, self._free_bytes())
        before = self._post.current
        with self._spare_time() as spare:
            model = opener.open(bundle, variant, like=before.model, spare=spare)
            spare.pause()
        try:
            return self._make_service(model, names, before)
        except BaseException:
            model.close()
            raise

    @contextmanager
    def _spare_time(self) -> Iterator[SpareTime]:
        spare = SpareTime(self._turns)
        with self._changed:
            self._spare = spare
            if self._ending or not is_background():
                # Who settles things in a thread of theirs, and in time that is not real, waits for them.
                spare.end()
        try:
            yield spare
        finally:
            self._spare = None
            spare.end()

    def _refuse_name(self, bundle: Bundle) -> None:
        if bundle.manifest.name in self._taken_names:
            raise BundleError(
                f"another model is served as {bundle.manifest.name!r}", where=str(bundle.path), remedy="build it anew"
            )

    def _note_failure(self, reason: Reason, error: ChipwiseError) -> None:
        self.counts.failed[reason] += 1
        _logger.error("%s stays in service: %s", self._post.current.model.name, error)

    def _note_done(self, reason: Reason, before: ServedModel, service: Service, started_s: float) -> float:
        self.counts.done[reason] += 1
        model, took_s = service.model, self._clock() - started_s
        cost = "quality not measured" if model.quality_cost is None else str(model.quality_cost)
        _logger.warning(
            "%s (%s) answers new requests in place of %s; opened and tested in %.1f s",
            model.name, cost, before.name, took_s,
        )  # fmt: skip
        return took_s


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
