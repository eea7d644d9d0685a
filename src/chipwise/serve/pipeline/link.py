"""Link: the places between two stages. Pure: it knows no thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from chipwise.serve.pipeline.job import Job, Place


class Link:
    """Places that are free, being filled, full, or being read.

    A place is taken before its value is made and given back when the next stage is done with it: with two of them one
    stage fills a buffer while the other reads its neighbour, and what is read is never written.

    Args:
        n_places: How many there are.
        buffer: Makes the buffer of each.
    """

    def __init__(self, n_places: int, buffer: Callable[[], Any]) -> None:
        self._free = deque(Place(buffer()) for _ in range(n_places))
        self._full: deque[Job] = deque()

    @property
    def n_free(self) -> int:
        """Places that may be taken."""
        return len(self._free)

    @property
    def n_full(self) -> int:
        """Values that wait to be read."""
        return len(self._full)

    def reserve(self) -> Place:
        """Take a free place to fill it."""
        return self._free.popleft()

    def put(self, job: Job, place: Place) -> None:
        """A place is full; its value is the job's."""
        job.place = place
        self._full.append(job)

    def take(self) -> Job:
        """The job whose value was there first. Its place stays taken until it is released."""
        return self._full.popleft()

    def release(self, place: Place) -> None:
        """A place's value is needed no more."""
        self._free.append(place)

    def remove(self, job: Job) -> bool:
        """Give up a value that waits to be read; False if it does not wait here."""
        if job not in self._full or job.place is None:
            return False
        self._full.remove(job)
        self.release(job.place)
        return True
