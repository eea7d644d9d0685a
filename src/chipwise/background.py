"""Background: work that nobody waits for leaves the cores to those that are waited for. On Linux only."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

# Beside a thread of the usual niceness the kernel gives one of 10 a tenth of a core, and one of 19 a seventieth: that
# would hold up whoever waits for a lock that it has.
_NICER_BY, _NICEST = 10, 19
_TASKS = Path("/proc/self/task")
_here: ContextVar[bool] = ContextVar("background", default=False)


@contextmanager
def in_background() -> Iterator[None]:
    """What is done inside, in this thread, is work that nobody waits for."""
    before = _here.set(True)
    try:
        yield
    finally:
        _here.reset(before)


def is_background() -> bool:
    """Whether the calling thread does such work."""
    return _here.get()


def lower_priority() -> None:
    """Lower the calling thread's priority, for good: for one that ends with its work and starts no others.

    What it does must leave the interpreter's lock to others, who would wait for a thread that gets no core.
    """
    if sys.platform == "linux":
        _lower(threading.get_native_id())


def considerately(work: Callable[[], T]) -> T:
    """Do what computes for long without the interpreter's lock; with less priority, if it is done in the background.

    It runs in a thread of its own, from which those that it starts take their priority over. They get the usual one
    when it is done. Where this process may not do that (``may_raise``), nothing is lowered.

    Raises:
        BaseException: Whatever the work raises.
    """
    if not is_background() or not may_raise():
        return work()
    usual = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    before, done = _tasks(), Future[T]()

    def run() -> None:
        lower_priority()
        try:
            done.set_result(work())
        except BaseException as e:  # it is raised where it is waited for
            done.set_exception(e)

    thread = threading.Thread(target=run, name="chipwise-background")
    thread.start()
    thread.join()
    lowered = min(usual + _NICER_BY, _NICEST)
    for task in _tasks() - before:
        # One that has ended meanwhile needs none.
        with suppress(ProcessLookupError):
            if os.getpriority(os.PRIO_PROCESS, task) == lowered:
                os.setpriority(os.PRIO_PROCESS, task, usual)
    return done.result()


@cache
def may_raise() -> bool:
    """Whether this process may raise a thread's priority again: by CAP_SYS_NICE, or by RLIMIT_NICE (``LimitNICE=``).

    Tried out, in a thread that ends.
    """
    if sys.platform != "linux":
        return False
    done = Future[bool]()

    def run() -> None:
        task = threading.get_native_id()
        usual = os.getpriority(os.PRIO_PROCESS, task)
        try:
            _lower(task)
            os.setpriority(os.PRIO_PROCESS, task, usual)
        except OSError:
            done.set_result(False)
        else:
            done.set_result(True)

    thread = threading.Thread(target=run, name="chipwise-background")
    thread.start()
    thread.join()
    return done.result()


def _lower(task: int) -> None:
    usual = os.getpriority(os.PRIO_PROCESS, task)
    # Linux has a niceness for each thread, and takes its number where POSIX has a process's (man 2 setpriority).
    os.setpriority(os.PRIO_PROCESS, task, min(usual + _NICER_BY, _NICEST))


def _tasks() -> set[int]:
    """The numbers of this process's threads."""
    return {int(entry.name) for entry in _TASKS.iterdir()}
