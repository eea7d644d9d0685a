"""Crew: all that works behind one server, as one to whoever starts and ends it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from chipwise.errors import ChipwiseError


class Worker(Protocol):
    """Takes requests and answers them from threads of its own. Every method may be called from any thread."""

    @property
    def healthy(self) -> bool:
        """Whether requests can be expected to be answered."""
        ...

    @property
    def draining(self) -> bool:
        """Whether requests are no longer taken."""
        ...

    def start(self) -> None:
        """Start the threads."""
        ...

    def drain(self, when_idle: Callable[[], None]) -> None:
        """Take no more requests, and call back once those on their way are answered."""
        ...

    def abort(self, error: ChipwiseError) -> None:
        """Answer all requests on their way with an error."""
        ...

    def stop(self, timeout_s: float) -> bool:
        """End the threads after what runs; False if one did not end in time."""
        ...


class Crew:
    """Several workers as one.

    Args:
        workers: The workers, at least one.
    """

    def __init__(self, workers: Sequence[Worker]) -> None:
        self._workers = tuple(workers)
        self._lock = threading.Lock()

    @property
    def healthy(self) -> bool:
        """Whether all are."""
        return all(worker.healthy for worker in self._workers)

    @property
    def draining(self) -> bool:
        """Whether any is."""
        return any(worker.draining for worker in self._workers)

    def start(self) -> None:
        """Start all threads."""
        for worker in self._workers:
            worker.start()

    def drain(self, when_idle: Callable[[], None]) -> None:
        """Let all take no more requests, and call back once the last of them has answered its own."""
        busy = set(range(len(self._workers)))

        def idle(number: int) -> None:
            with self._lock:
                busy.discard(number)
                last = not busy
            if last:
                when_idle()

        for number, worker in enumerate(self._workers):
            worker.drain(lambda number=number: idle(number))  # type: ignore[misc]

    def abort(self, error: ChipwiseError) -> None:
        """Answer all requests on their way with an error."""
        for worker in self._workers:
            worker.abort(error)

    def stop(self, timeout_s: float) -> bool:
        """End all threads; False if one did not end in time."""
        ended = [worker.stop(timeout_s) for worker in self._workers]
        return all(ended)
