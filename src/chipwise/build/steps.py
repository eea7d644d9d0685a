"""StepLog: the steps of a build as they happen, with time, peak memory and what was found."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from chipwise.report.report import Step


class BuildListener(Protocol):
    """Who is told how a build goes."""

    def started(self, name: str) -> None:
        """A step begins."""
        ...

    def progress(self, done: int, total: int) -> None:
        """The running step has done so much."""
        ...

    def finished(self, step: Step) -> None:
        """A step is done."""
        ...


class SilentListener:
    """Tells nobody."""

    def started(self, name: str) -> None:
        """A step begins."""

    def progress(self, done: int, total: int) -> None:
        """The running step has done so much."""

    def finished(self, step: Step) -> None:
        """A step is done."""


class Note:
    """What a step has to say when it is done."""

    text = ""


class StepLog:
    """Keeps the steps and tells the listener."""

    def __init__(self, listener: BuildListener) -> None:
        self.listener = listener
        self.steps: list[Step] = []

    @contextmanager
    def step(self, name: str) -> Iterator[Note]:
        """Time a step; the note's text is kept with it."""
        self.listener.started(name)
        note, start = Note(), time.perf_counter()
        yield note
        done = Step(name, round(time.perf_counter() - start, 3), peak_bytes(), note.text)
        self.steps.append(done)
        self.listener.finished(done)


def peak_bytes() -> int:
    """The process's peak resident memory so far, in bytes. The system counts kilobytes, macOS bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
