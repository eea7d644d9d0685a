"""A process of an engine that cannot be started: it is said in one line, nothing is left, and nobody waits for it."""

from __future__ import annotations

import errno
import os
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from chipwise.engine import Batch
from chipwise.engine.isolated import IsolatedEngine, Isolation, process
from chipwise.engine.isolated.process import EngineProcess
from chipwise.errors import EngineError, EngineLostError
from tests.engine.isolated.conftest import EAGER, OpenIsolated, workers
from tests.engine.isolated.fake_site.misbehaving import SEGFAULT

NO_MORE_FILES = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
NO_MORE_THREADS = RuntimeError("can't start new thread")
SAID = "a process for the engine cannot be started"


def raising(error: Exception) -> Callable[..., None]:
    def refuse(*_: object, **__: object) -> None:
        raise error

    return refuse


def refuse_thread(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The system has no more threads when the one of this name is started."""
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == name:
            raise NO_MORE_THREADS
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize(("owner", "name"), [(os, "memfd_create"), (process, "wire"), (subprocess, "Popen")])
def test_what_the_system_refuses_is_said_and_nothing_is_left(
    owner: object, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = descriptors()
    monkeypatch.setattr(owner, name, raising(NO_MORE_FILES))
    with pytest.raises(EngineError, match=rf"^{SAID} \({os.strerror(errno.EMFILE)}\)$"):
        EngineProcess()
    assert descriptors() == before


@pytest.mark.parametrize("name", ["chipwise-engine-output", "chipwise-engine-end"])
def test_without_a_thread_the_child_is_ended(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = descriptors()
    refuse_thread(monkeypatch, name)
    with pytest.raises(EngineError, match=rf"^{SAID} \({NO_MORE_THREADS}\)$"):
        EngineProcess()
    assert descriptors() == before
    assert workers() == []


def test_a_first_start_that_is_refused_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    caught: list[EngineError] = []

    def start() -> None:
        try:
            IsolatedEngine("null").open({}, n_slots=1, max_context=8, options={})
        except EngineError as e:
            caught.append(e)

    monkeypatch.setattr(process, "wire", raising(NO_MORE_FILES))
    # A daemon: if nobody told it, the test would fail and not hang.
    waiting = threading.Thread(target=start, daemon=True)
    waiting.start()
    waiting.join(20)
    assert [SAID in str(error) for error in caught] == [True]


@pytest.mark.slow
def test_a_later_start_that_is_refused_is_tried_again(
    open_isolated: OpenIsolated, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = open_isolated(isolation=Isolation(backoff=EAGER))
    with monkeypatch.context() as refusing:
        refusing.setattr(process, "wire", raising(NO_MORE_FILES))
        with pytest.raises(EngineLostError):
            session.step(Batch(0, np.array([[SEGFAULT]]), np.zeros(1, int)))
        session.renew()
        until(lambda: session.state == "down")
        assert session.trouble.startswith(f"the engine cannot be started again: {SAID}")
    until(lambda: session.state == "up")
    session.step(Batch(0, np.array([[1]]), np.zeros(1, int)))


def until(true: Callable[[], bool]) -> None:
    end_s = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end_s
        time.sleep(0.01)
