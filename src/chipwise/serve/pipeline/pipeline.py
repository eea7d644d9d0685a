"""Pipeline: runs stages side by side, each request through all of them in order."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from chipwise.engine.restarts import HasProcess
from chipwise.errors import ChipwiseError, EngineDownError, EngineError, OverloadedError, UnavailableError
from chipwise.serve.observe.workload import Workload
from chipwise.serve.pipeline.job import Done, Job, Outcome, Place
from chipwise.serve.pipeline.link import Link
from chipwise.serve.pipeline.stage import Stage
from chipwise.serve.request.events import Failure

# A stage that fails so many requests in a row is not just unlucky with one of them.
_FAILURES_UNTIL_SICK = 3
_RETRY_S = 1

_logger = logging.getLogger(__name__)


class Pipeline:
    """Stages in threads of their own, with places for two values a request of a batch between any two.

    Requests come out in the order they went in. A stage works only when its result has a place, so that nothing piles
    up behind a slow one, and the requests before the first stage are bounded too. Nothing sleeps or polls: whoever has
    to wait is told. Every method may be called from any thread.

    Args:
        name: What threads and errors call it.
        stages: The stages, at least one.
        max_waiting: Requests that may wait for the first stage; the next one is refused.
        depth: Places behind a stage for each request of a batch.
        process: The process that a stage works in; None if all work in this one.
    """

    def __init__(
        self,
        name: str,
        stages: Sequence[Stage],
        *,
        max_waiting: int = 64,
        depth: int = 2,
        process: HasProcess | None = None,
    ) -> None:
        self._name = name
        self.process = process
        self._stages = tuple(stages)
        self._max_waiting = max_waiting
        self._lock = threading.Lock()
        # One condition a stage, all over one lock: whoever changes what a stage waits for wakes that stage alone.
        self._news = [threading.Condition(self._lock) for _ in stages]
        self._waiting: deque[Job] = deque()
        self._links = [
            Link(depth * max(one.batch, following.batch), one.buffer)
            for one, following in zip(self._stages, self._stages[1:], strict=False)
        ]
        self._live: dict[Job, None] = {}
        # Outcomes that are out of the lock and not told yet: until they are, nothing is idle.
        self._telling = 0
        # A daemon: work that hangs in a runtime must not keep the process from ending.
        self._threads = [
            threading.Thread(target=self._serve, args=(k,), name=f"chipwise-{name}-{stage.name}", daemon=True)
            for k, stage in enumerate(self._stages)
        ]
        self._stopping = False
        self._when_idle: Callable[[], None] | None = None
        self._failures = [0] * len(self._stages)
        self.draining = False
        """Whether requests are no longer taken."""
        self.broken: Exception | None = None
        """Nothing ends it: what a stage raises reaches those that wait for it."""

    @property
    def healthy(self) -> bool:
        """Whether no stage failed all of its latest requests, and its process is up or will be in a moment."""
        return max(self._failures) < _FAILURES_UNTIL_SICK and (self.process is None or self.process.state != "down")

    @property
    def n_live(self) -> int:
        """Requests on their way, those that wait included."""
        return len(self._live)

    def workload(self) -> Workload:
        """Requests that wait for the first stage, and those that are further."""
        with self._lock:
            waiting, live = len(self._waiting), len(self._live)
        return Workload(waiting=waiting, running=live - waiting)

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def submit(self, value: Any, done: Callable[[Outcome], None]) -> Job:
        """Take a request.

        Args:
            value: What the first stage gets.
            done: Takes the outcome, once, unless the request is cancelled before; see ``Job``.

        Raises:
            OverloadedError: As many wait as may.
            UnavailableError: The server is shutting down, or the engine is down.
        """
        if (process := self.process) is not None and process.state == "down":
            raise _unavailable(process.trouble)
        job = Job(value, done)
        with self._lock:
            if self.draining:
                raise UnavailableError("the server is shutting down and takes no requests", remedy="try again later")
            if len(self._waiting) >= self._max_waiting:
                raise OverloadedError(
                    f"{len(self._waiting)} requests wait for {self._name}, no more are taken",
                    remedy="try again in a moment",
                    retry_after_s=_RETRY_S,
                )
            self._live[job] = None
            self._waiting.append(job)
            self._news[0].notify()
        return job

    def cancel(self, job: Job) -> None:
        """Give up a request: its place is free, and work on it that runs is dropped. One that is over may be named."""
        with self._lock:
            self._forget(job)
            idle = self._idle_call()
        idle()

    def drain(self, when_idle: Callable[[], None]) -> None:
        """Take no more requests, and call back (from any thread) once those on their way are answered."""
        with self._lock:
            self.draining = True
            self._when_idle = when_idle
            idle = self._idle_call()
        idle()

    def abort(self, error: ChipwiseError) -> None:
        """Answer all requests on their way with an error."""
        with self._lock:
            jobs = list(self._live)
            for job in jobs:
                self._forget(job)
            self._telling += len(jobs)
        self._tell([(job, Failure(error)) for job in jobs])

    def stop(self, timeout_s: float) -> bool:
        """End the threads after the work that runs; False if one did not end in time."""
        self.abort(UnavailableError("the server shut down before the answer was complete"))
        with self._lock:
            self.draining = self._stopping = True
            for news in self._news:
                news.notify_all()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(timeout_s)
        return not any(thread.is_alive() for thread in self._threads)

    def _serve(self, k: int) -> None:
        while True:
            with self._lock:
                while not self._stopping and not self._ready(k):
                    self._news[k].wait()
                if self._stopping:
                    return
                jobs, places = self._take(k)
            results = self._work(k, jobs, places)
            with self._lock:
                ends = self._pass_on(k, jobs, places, results)
                self._telling += len(ends)
            self._tell(ends)

    def _tell(self, ends: Sequence[tuple[Job, Outcome]]) -> None:
        for job, outcome in ends:
            job.done(outcome)
        with self._lock:
            self._telling -= len(ends)
            idle = self._idle_call()
        idle()

    def _inbox(self, k: int) -> int:
        return self._links[k - 1].n_full if k else len(self._waiting)

    def _ready(self, k: int) -> int:
        """How many requests a stage can take now."""
        room = self._links[k].n_free if k < len(self._links) else self._stages[k].batch
        return min(self._inbox(k), room, self._stages[k].batch)

    def _take(self, k: int) -> tuple[list[Job], list[Place]]:
        """What a stage works on next, and where the results will lie."""
        count = self._ready(k)
        jobs = [self._links[k - 1].take() if k else self._waiting.popleft() for _ in range(count)]
        places = [self._links[k].reserve() if k < len(self._links) else Place(None) for _ in range(count)]
        return jobs, places

    def _work(self, k: int, jobs: list[Job], places: list[Place]) -> Sequence[Any]:
        stage = self._stages[k]
        try:
            results = stage.work([job.value for job in jobs], [place.buffer for place in places])
            if len(results) != len(jobs):
                raise EngineError(f"{len(results)} results of {len(jobs)} requests", where=stage.name)  # noqa: TRY301
        except Exception as e:  # whatever it is, it must reach those that wait, and nobody else
            if len(jobs) > 1:
                # One of them may be the reason: each gets its own try, and its own error.
                return [self._work(k, [job], [place])[0] for job, place in zip(jobs, places, strict=True)]
            if isinstance(e, EngineDownError):
                return [_unavailable(e.what)]
            if isinstance(e, ChipwiseError):
                return [e]
            _logger.exception("the stage %s of %s failed", stage.name, self._name)
            return [EngineError(f"the stage {stage.name} failed ({type(e).__name__}: {e})", where=self._name)]
        return results

    def _pass_on(
        self, k: int, jobs: list[Job], places: list[Place], results: Sequence[Any]
    ) -> list[tuple[Job, Outcome]]:
        """Let go of what a stage has read, hand on what it made; the requests that are over with it."""
        ends: list[tuple[Job, Outcome]] = []
        for job, place, result in zip(jobs, places, results, strict=True):
            if job.place is not None:
                self._links[k - 1].release(job.place)
                self._news[k - 1].notify()
            failed = isinstance(result, ChipwiseError)
            self._failures[k] = self._failures[k] + 1 if isinstance(result, EngineError) else 0
            job.value, job.place = None, None
            if not failed and k < len(self._links) and job in self._live:
                job.value = result
                self._links[k].put(job, place)
                self._news[k + 1].notify()
                continue
            if k < len(self._links):
                self._links[k].release(place)
            if job in self._live:
                del self._live[job]
                ends.append((job, Failure(result) if isinstance(result, ChipwiseError) else Done(result)))
        return ends

    def _forget(self, job: Job) -> None:
        """Drop a request wherever it waits; whoever works on it will find that nobody asks for it."""
        if job not in self._live:
            return
        del self._live[job]
        if job in self._waiting:
            self._waiting.remove(job)
            return
        for k, link in enumerate(self._links):
            if link.remove(job):
                self._news[k].notify()

    def _idle_call(self) -> Callable[[], None]:
        """What is to be called, outside the lock, if nothing is on its way any more."""
        call = self._when_idle
        if call is None or self._live or self._telling:
            return _nothing
        self._when_idle = None
        return call


def _unavailable(trouble: str) -> UnavailableError:
    return UnavailableError(f"the engine is down ({trouble})", remedy="try again later, or see the server's log")


def _nothing() -> None:
    """Calls nobody."""
