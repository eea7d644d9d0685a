"""Background: work that nobody waits for leaves the cores to those that are waited for. On Linux only."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
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
_SELF = "self"
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
        # A system that refuses it (seccomp) has the work done all the same.
        with suppress(OSError):
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
    usual = _own_niceness()
    before, done = _tasks(_SELF), Future[T]()

    def run() -> None:
        lower_priority()
        try:
            done.set_result(work())
        except BaseException as e:  # it is raised where it is waited for
            done.set_exception(e)

    thread = threading.Thread(target=run, name="chipwise-background")
    thread.start()
    thread.join()
    _raise(_tasks(_SELF) - before, usual)
    return done.result()


@contextmanager
def considerate(pid: int) -> Iterator[None]:
    """Another process of this user's, which has just been started, has less priority inside, if that is background.

    Afterwards all of its threads have the usual one. Where this process may not do that, nothing is lowered.

    Args:
        pid: Its number.
    """
    if not is_background() or not may_raise():
        yield
        return
    usual = _own_niceness()
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, _lower_than(usual))
    try:
        yield
    finally:
        _raise(_tasks(str(pid)), usual)


@cache
def may_raise() -> bool:
    """Whether this process may raise a thread's priority again: by CAP_SYS_NICE, or by RLIMIT_NICE (``LimitNICE=``).

    Tried out, in a thread that ends.
    """
    if sys.platform != "linux":
        return False
    done = Future[bool]()

    def run() -> None:
        try:
            task = threading.get_native_id()
            usual = os.getpriority(os.PRIO_PROCESS, task)
            _lower(task)
            os.setpriority(os.PRIO_PROCESS, task, usual)
        except Exception:  # whatever it is: without an answer this would be waited for without end
            done.set_result(False)
        else:
            done.set_result(True)

    thread = threading.Thread(target=run, name="chipwise-background")
    thread.start()
    thread.join()
    return done.result()


def _lower(task: int) -> None:
    # Linux has a niceness for each thread, and takes its number where POSIX has a process's (man 2 setpriority).
    os.setpriority(os.PRIO_PROCESS, task, _lower_than(os.getpriority(os.PRIO_PROCESS, task)))


def _lower_than(niceness: int) -> int:
    return min(niceness + _NICER_BY, _NICEST)


def _own_niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def _raise(tasks: Iterable[int], usual: int) -> None:
    """Give those of them that were lowered the usual niceness."""
    for task in tasks:
        # One that has ended meanwhile needs none.
        with suppress(ProcessLookupError):
            if os.getpriority(os.PRIO_PROCESS, task) == _lower_than(usual):
                os.setpriority(os.PRIO_PROCESS, task, usual)


def _tasks(process: str) -> set[int]:
    """The numbers of a process's threads; none if it has ended."""
    try:
        return {int(entry.name) for entry in Path("/proc", process, "task").iterdir()}
    except (FileNotFoundError, ProcessLookupError):
        return set()
