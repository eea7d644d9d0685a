"""Stages made of events: work begins and ends when a test says so."""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from typing import Any

from chipwise.errors import RequestError
from chipwise.serve.pipeline.job import Outcome
from chipwise.serve.pipeline.pipeline import Pipeline
from chipwise.serve.pipeline.stage import Stage

TIMEOUT_S = 20.0


class Turnstile:
    """A stage that lets a request through for each time it is told to.

    A value is a list of the stages it has passed, behind its number. It is written into the buffer behind the stage,
    and read from the one before only when the stage is let go: what somebody overwrote in between shows.
    """

    def __init__(self, name: str, *, batch: int = 1, fails: Sequence[int] = (), breaks: Sequence[int] = ()) -> None:
        self.name = name
        self.entered: queue.SimpleQueue[list[int]] = queue.SimpleQueue()
        self._permits = threading.Semaphore(0)
        self._fails, self._breaks = set(fails), set(breaks)
        self.stage = Stage(name, self._work, batch, list)

    def allow(self, count: int = 1) -> None:
        self._permits.release(count)

    def entry(self) -> list[int]:
        """The numbers of the requests that the stage took next; waits for them."""
        return self.entered.get(timeout=TIMEOUT_S)

    def _work(self, values: Sequence[list[Any]], buffers: Sequence[list[Any] | None]) -> list[Any]:
        self.entered.put([value[0] for value in values])
        assert self._permits.acquire(timeout=TIMEOUT_S)
        numbers = [value[0] for value in values]
        if broken := self._breaks & set(numbers):
            raise ValueError(f"broken by {sorted(broken)}")
        results: list[Any] = []
        for value, buffer in zip(values, buffers, strict=True):
            if value[0] in self._fails:
                results.append(RequestError(f"{self.name} does not take {value[0]}"))
                continue
            place = [] if buffer is None else buffer
            place[:] = [*value, self.name]
            results.append(place)
        return results


class Answers:
    """The outcomes of requests, in the order they came."""

    def __init__(self) -> None:
        self._arrived: queue.SimpleQueue[tuple[int, Outcome]] = queue.SimpleQueue()

    def of(self, number: int):
        return lambda outcome: self._arrived.put((number, outcome))

    def next(self) -> tuple[int, Outcome]:
        return self._arrived.get(timeout=TIMEOUT_S)

    @property
    def empty(self) -> bool:
        return self._arrived.empty()


class Line:
    """A pipeline of turnstiles that runs."""

    def __init__(self, *turnstiles: Turnstile, **options) -> None:
        self.turnstiles = turnstiles
        self.answers = Answers()
        self.pipeline = Pipeline("test", [one.stage for one in turnstiles], **options)

    def __enter__(self) -> Line:
        self.pipeline.start()
        return self

    def __exit__(self, *_: object) -> None:
        for one in self.turnstiles:
            one.allow(1000)
        assert self.pipeline.stop(TIMEOUT_S)

    def submit(self, number: int):
        return self.pipeline.submit([number], self.answers.of(number))
