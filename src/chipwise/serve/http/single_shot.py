"""SingleShot: a model that answers in one run, and a request's way through it: awaited, given up, and counted."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest

from chipwise.engine.graph_session import GraphSession
from chipwise.errors import ChipwiseError, DeadlineError, OverloadedError, RequestError, UnavailableError
from chipwise.serve.http.errors import wrong_model
from chipwise.serve.http.leaving import until_disconnect
from chipwise.serve.observe.job_metrics import JobEnd, JobMetrics
from chipwise.serve.pipeline.job import Outcome
from chipwise.serve.pipeline.pipeline import Pipeline
from chipwise.serve.request.events import Failure
from chipwise.serve.settings import ServeSettings


class RunsOnce(Protocol):
    """An open model that answers in one run."""

    @property
    def name(self) -> str:
        """What clients call it."""
        ...

    @property
    def session(self) -> GraphSession:
        """Its graph."""
        ...

    @property
    def created_s(self) -> int:
        """When it was built, in seconds since 1970."""
        ...

    @property
    def fingerprint(self) -> str | None:
        """Changes whenever its answers might; None if unknown."""
        ...


M = TypeVar("M", bound=RunsOnce)


@dataclass(frozen=True)
class SingleShot(Generic[M]):
    """A model being served that answers in one run: see ``Holder``.

    Attributes:
        kind: What its route is called in metrics.
        model: The model.
        pipeline: What runs it.
        metrics: What is counted, of all that are served on the route one after another.
        clock: The time in seconds.
        settings: The server's settings.
        names: What requests may call it, the one for lists first: those before it go on being answered.
    """

    kind: str
    model: M
    pipeline: Pipeline
    metrics: JobMetrics
    clock: Callable[[], float]
    settings: ServeSettings
    names: tuple[str, ...]

    def __str__(self) -> str:
        """Its name, for the log."""
        return self.name

    @property
    def name(self) -> str:
        """What its answers call it."""
        return self.model.name

    @property
    def fingerprint(self) -> str | None:
        """Changes whenever its answers might; None if unknown."""
        return self.model.fingerprint

    @property
    def loop(self) -> Pipeline:
        """What runs it."""
        return self.pipeline

    def close(self) -> None:
        """Give all its memory back. Once the pipeline has ended."""
        self.model.session.close()

    def check_model(self, name: str | None, gives: str) -> None:
        """Check that a request means this model; one that names none does.

        Args:
            name: What it names.
            gives: What is given here.

        Raises:
            RequestError: It names another (404).
        """
        if name is not None and name not in self.names:
            raise wrong_model(name, self.names[0], gives)

    @contextlib.contextmanager
    def body_counted(self) -> Iterator[None]:
        """Around reading the body of a request: if there is no memory for it, it is counted as rejected."""
        try:
            yield
        except OverloadedError:
            self.metrics.over(self.kind, "rejected")
            raise

    async def answer(
        self, request: HttpRequest, value: Any, deadline_ms: int | None = None, *, arrived_s: float | None = None
    ) -> Any:
        """What the pipeline makes of a value. The request's body has been read.

        Args:
            request: The request.
            value: What it asks for.
            deadline_ms: Milliseconds from its arrival on in which its answer is of use; None for no end.
            arrived_s: When it came, on ``clock``, before its body was read; None for now.

        Raises:
            OverloadedError: As many requests wait as may.
            UnavailableError: The server is shutting down, or the engine is down.
            DeadlineError: The time is over.
            ClientDisconnect: The client went away.
            ChipwiseError: A stage failed this request.
        """
        started_s = self.clock()
        try:
            result = await self._result(request, value, deadline_ms, started_s if arrived_s is None else arrived_s)
        except (ChipwiseError, ClientDisconnect) as e:
            self.metrics.over(self.kind, _end(e))
            raise
        self.metrics.over(self.kind, "done")
        self.metrics.took(self.kind, self.clock() - started_s)
        return result

    async def _result(self, request: HttpRequest, value: Any, deadline_ms: int | None, arrived_s: float) -> Any:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Outcome] = loop.create_future()

        def tell(outcome: Outcome) -> None:
            # A closed event loop has no readers left: the server has shut down around this request.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(_set, answer, outcome)

        limits_s = [
            limit_s for limit_s in (self.settings.request_timeout_s, _seconds(deadline_ms)) if limit_s is not None
        ]
        limit_s = min(limits_s, default=math.inf)
        left_s = arrived_s + limit_s - self.clock()
        if left_s <= 0:
            raise _too_late(limit_s)
        job = self.pipeline.submit(value, tell)
        gone = asyncio.create_task(until_disconnect(request.receive))
        try:
            await asyncio.wait(
                (answer, gone), timeout=left_s if limits_s else None, return_when=asyncio.FIRST_COMPLETED
            )
            if not answer.done():
                if gone.done():
                    raise ClientDisconnect
                raise _too_late(limit_s)
        finally:
            self.pipeline.cancel(job)
            gone.cancel()
            await asyncio.gather(gone, return_exceptions=True)
        outcome = answer.result()
        if isinstance(outcome, Failure):
            raise outcome.error
        return outcome.value


def _too_late(limit_s: float) -> DeadlineError:
    return DeadlineError(
        f"the deadline passed: {limit_s:g} s after it came the request is not answered",
        remedy="allow more time, or send less at once",
    )


def _set(answer: asyncio.Future[Outcome], outcome: Outcome) -> None:
    if not answer.done():
        answer.set_result(outcome)


def _seconds(deadline_ms: int | None) -> float | None:
    return None if deadline_ms is None else deadline_ms / 1000


def _end(error: ChipwiseError | ClientDisconnect) -> JobEnd:
    if isinstance(error, ClientDisconnect):
        return "cancelled"
    if isinstance(error, (OverloadedError, UnavailableError)):
        return "rejected"
    if isinstance(error, DeadlineError):
        return "expired"
    return "invalid" if isinstance(error, RequestError) else "error"
