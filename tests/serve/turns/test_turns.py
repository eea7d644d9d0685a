from __future__ import annotations

import threading
import time

import pytest

from chipwise.serve.request.priority import Priority
from chipwise.serve.turns.turns import Turns


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


class Waiter:
    """A thread that waits for something, and when that is over tells."""

    def __init__(self, wait) -> None:
        self.over = threading.Event()
        self._wait = wait
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        self._wait()
        self.over.set()

    def join(self) -> None:
        self._thread.join(5)
        assert self.over.is_set()


def take_spare(turns: Turns, longest_s: float = 10.0, unless=lambda: False) -> None:
    with turns.spare(longest_s, unless):
        pass


def test_spare_turns_wait_until_no_emergency_is_on_its_way_even_between_its_steps() -> None:
    turns = Turns(10.0)
    for priority in (Priority.EMERGENCY, Priority.EMERGENCY, Priority.NORMAL):
        turns.arrive(priority)
    with turns.take(Priority.EMERGENCY):
        pass
    waiter = Waiter(lambda: take_spare(turns))
    assert not waiter.over.wait(0.05)
    turns.leave(Priority.EMERGENCY)
    assert not waiter.over.wait(0.05), "there is another one"
    with turns.take(Priority.EMERGENCY):
        assert not waiter.over.is_set()
    turns.leave(Priority.EMERGENCY)
    waiter.join()


def test_spare_turns_come_after_all_who_wait() -> None:
    turns, order = Turns(10.0), list[str]()
    began, release = threading.Event(), threading.Event()

    def hold() -> None:
        with turns.take(Priority.NORMAL):
            began.set()
            assert release.wait(5)

    def run(name: str, turn) -> None:
        with turn:
            order.append(name)

    holder = Waiter(hold)
    assert began.wait(5)
    waiters = []
    for name, turn in (("spare", turns.spare(10.0)), ("background", turns.take(Priority.BACKGROUND))):
        waiters.append(Waiter(lambda name=name, turn=turn: run(name, turn)))
        while len(turns._waiting) < len(waiters):
            time.sleep(0.001)
    release.set()
    for waiter in (holder, *waiters):
        waiter.join()
    assert order == ["background", "spare"]


def test_emergencies_without_end_hold_up_spare_turns_so_long_and_no_longer() -> None:
    turns = Turns(10.0)
    turns.arrive(Priority.EMERGENCY)
    started_s = time.monotonic()
    take_spare(turns, 0.05)
    turns.await_calm(0.05)
    assert 0.09 < time.monotonic() - started_s < 5
    # Nobody took it for a hang: the turns are still handed out one at a time.
    with turns.take(Priority.NORMAL):
        assert len(turns._running) == 1


def test_calm_is_not_awaited_by_one_who_has_given_up() -> None:
    turns, given_up = Turns(10.0), threading.Event()
    turns.arrive(Priority.EMERGENCY)
    waiters = [
        Waiter(lambda: turns.await_calm(10.0, given_up.is_set)),
        Waiter(lambda: take_spare(turns, unless=given_up.is_set)),
    ]
    assert not any(waiter.over.wait(0.02) for waiter in waiters)
    given_up.set()
    turns.look_again()
    for waiter in waiters:
        waiter.join()
