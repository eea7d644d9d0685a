"""Priorities of threads, as Linux has them: those of this test's own threads, read back from the kernel."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from chipwise import background
from chipwise.background import considerate, considerately, in_background, is_background, lower_priority, may_raise

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="threads have a niceness on Linux alone")


def niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


class Lasting:
    """Threads that outlive the work that started them, as an engine's do."""

    def __init__(self) -> None:
        self.ended, self.tasks = threading.Event(), list[int]()
        self.threads: list[threading.Thread] = []

    def start(self) -> None:
        thread = threading.Thread(target=self.ended.wait, args=(20,))
        thread.start()
        self.threads.append(thread)
        assert thread.native_id is not None
        self.tasks.append(thread.native_id)

    def niceness(self) -> list[int]:
        return [os.getpriority(os.PRIO_PROCESS, task) for task in self.tasks]


@pytest.fixture
def lasting() -> Iterator[Lasting]:
    threads = Lasting()
    yield threads
    threads.ended.set()
    for thread in threads.threads:
        thread.join(5)


def work(lasting: Lasting) -> tuple[int, list[int]]:
    lasting.start()
    return niceness(), lasting.niceness()


def test_what_is_done_in_the_background_is_lowered_and_what_it_leaves_is_not(lasting: Lasting) -> None:
    if not may_raise():
        pytest.skip("this user may not raise priorities")
    usual = niceness()
    with in_background():
        during, started = considerately(lambda: work(lasting))
    assert during > usual
    assert started == [during], "the kernel hands it on"
    assert lasting.niceness() == [usual]
    assert niceness() == usual


def test_threads_that_had_a_niceness_of_their_own_keep_it(lasting: Lasting) -> None:
    if not may_raise():
        pytest.skip("this user may not raise priorities")

    def start_one_that_is_nicer() -> None:
        lasting.start()
        os.setpriority(os.PRIO_PROCESS, lasting.tasks[0], niceness() + 3)

    usual = niceness()
    with in_background():
        considerately(start_one_that_is_nicer)
    assert lasting.niceness()[0] > usual


def test_one_who_may_not_raise_priorities_lowers_none(lasting: Lasting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "may_raise", lambda: False)
    usual = niceness()
    with in_background():
        assert considerately(lambda: work(lasting)) == (usual, [usual])
    assert lasting.niceness() == [usual]


def test_a_refusal_of_the_system_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.setpriority

    def refuse_to_raise(which: int, who: int, value: int) -> None:
        if value < os.getpriority(which, who):
            raise PermissionError
        real(which, who, value)

    monkeypatch.setattr(os, "setpriority", refuse_to_raise)
    may_raise.cache_clear()
    try:
        assert not may_raise()
    finally:
        may_raise.cache_clear()


def test_a_refusal_to_tell_the_priority_is_one_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: int) -> int:
        raise PermissionError

    monkeypatch.setattr(os, "getpriority", refuse)
    may_raise.cache_clear()
    answers: list[bool] = []
    try:
        # A daemon: if no answer came, the test would fail and not hang.
        asking = threading.Thread(target=lambda: answers.append(may_raise()), daemon=True)
        asking.start()
        asking.join(10)
    finally:
        may_raise.cache_clear()
    assert answers == [False]


def test_outside_of_the_background_nothing_changes(lasting: Lasting) -> None:
    here = threading.get_ident()
    usual = niceness()
    assert considerately(lambda: (threading.get_ident(), work(lasting))) == (here, (usual, [usual]))


def test_an_error_comes_through_and_nothing_stays_lowered(lasting: Lasting) -> None:
    def fail() -> None:
        lasting.start()
        raise KeyError("x")

    usual = niceness()
    with in_background(), pytest.raises(KeyError):
        considerately(fail)
    assert lasting.niceness() == [usual]
    assert not is_background()


def test_a_thread_can_lower_itself_alone() -> None:
    seen: list[int] = []
    thread = threading.Thread(target=lambda: (lower_priority(), seen.append(niceness())))
    usual = niceness()
    thread.start()
    thread.join(5)
    assert seen[0] > usual
    assert niceness() == usual
    assert not is_background()


@pytest.mark.skipif(not may_raise(), reason="this user may not raise priorities")
def test_another_process_is_lowered_so_long() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        usual = os.getpriority(os.PRIO_PROCESS, process.pid)
        with considerate(process.pid):
            assert os.getpriority(os.PRIO_PROCESS, process.pid) == usual
        with in_background(), considerate(process.pid):
            assert os.getpriority(os.PRIO_PROCESS, process.pid) > usual
        assert os.getpriority(os.PRIO_PROCESS, process.pid) == usual
        process.communicate(b"\n")
    with in_background(), considerate(process.pid):
        assert is_background(), "one that has ended is no trouble"


def test_work_is_done_where_the_system_lowers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "setpriority", refuse)
    may_raise.cache_clear()
    try:
        with in_background(), considerate(os.getpid()):
            lower_priority()
            assert considerately(lambda: 7) == 7
    finally:
        may_raise.cache_clear()
