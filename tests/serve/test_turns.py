from __future__ import annotations

import threading
import time

import pytest

from chipwise.serve.priority import Priority
from chipwise.serve.turns import Turns


def test_one_at_a_time_the_more_urgent_first() -> None:
    turns, order, began = Turns(10.0), list[str](), threading.Event()
    release = threading.Event()

    def hold() -> None:
        with turns.take(Priority.BACKGROUND):
            began.set()
            assert release.wait(5)

    def run(name: str, priority: Priority) -> None:
        with turns.take(priority):
            order.append(name)
            running = len(turns._running)
            assert running == 1

    holder = threading.Thread(target=hold)
    holder.start()
    assert began.wait(5)
    waiting = []
    for name, priority in (("b", Priority.BACKGROUND), ("n", Priority.NORMAL), ("e", Priority.EMERGENCY)):
        waiting.append(threading.Thread(target=run, args=(name, priority)))
        waiting[-1].start()
        while len(turns._waiting) < len(waiting):
            time.sleep(0.001)
    release.set()
    for thread in (holder, *waiting):
        thread.join(5)
        assert not thread.is_alive()
    assert order == ["e", "n", "b"]


def test_equals_alternate() -> None:
    turns, order = Turns(10.0), list[int]()
    both = threading.Barrier(2)

    def run(number: int) -> None:
        both.wait(5)
        for _ in range(50):
            with turns.take(Priority.NORMAL):
                order.append(number)
                time.sleep(0.0005)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    # While both run, neither has more than two turns in a row.
    common = order[: len(order) - 3]
    assert all(len(set(common[i : i + 3])) == 2 for i in range(2, len(common) - 10))


def test_nobody_waits_for_one_that_hangs() -> None:
    turns, hangs, release = Turns(0.05), threading.Event(), threading.Event()

    def hang() -> None:
        with turns.take(Priority.EMERGENCY):
            hangs.set()
            assert release.wait(5)

    thread = threading.Thread(target=hang)
    thread.start()
    assert hangs.wait(5)
    started_s = time.monotonic()
    with turns.take(Priority.BACKGROUND):
        assert 0.04 < time.monotonic() - started_s < 2
    waited_s = time.monotonic() - started_s
    for _ in range(100):
        with turns.take(Priority.BACKGROUND):
            pass
    assert time.monotonic() - started_s - waited_s < 1, "it is waited for once, not at every step"
    release.set()
    thread.join(5)
    with turns.take(Priority.BACKGROUND):
        assert not turns._waiting


def test_an_error_gives_the_turn_back() -> None:
    turns = Turns(10.0)
    with pytest.raises(ZeroDivisionError), turns.take(Priority.NORMAL):
        1 / 0  # noqa: B018
    started_s = time.monotonic()
    with turns.take(Priority.NORMAL):
        assert time.monotonic() - started_s < 1
