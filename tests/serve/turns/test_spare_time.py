from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from chipwise.engine.null import VirtualClock
from chipwise.serve.request.priority import Priority
from chipwise.serve.turns.spare_time import SpareTime
from chipwise.serve.turns.turns import Turns


class Busy(Turns):
    """Emergencies that never end, on a clock of their own: every wait takes as long as it may."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self.clock, self.waits_s = clock, list[float]()

    def await_calm(self, longest_s: float, unless: Callable[[], bool] = bool) -> None:
        self._wait(longest_s, unless)

    @contextmanager
    def spare(self, longest_s: float, unless: Callable[[], bool] = bool) -> Iterator[None]:
        self._wait(longest_s, unless)
        yield

    def _wait(self, longest_s: float, unless: Callable[[], bool]) -> None:
        took_s = 0.0 if unless() else min(longest_s, 4.0)
        self.waits_s.append(took_s)
        self.clock.advance(took_s)


def test_patience_is_for_all_waits_together() -> None:
    clock = VirtualClock()
    turns = Busy(clock)
    spare = SpareTime(turns, 10.0, clock)
    spare.pause()
    with spare.turn():
        clock.advance(60.0)  # a step is no wait
    spare.pause()
    with spare.turn():
        pass
    assert turns.waits_s == [4.0, 4.0, 2.0, 0.0]


def test_steps_take_turns_until_the_end() -> None:
    turns = Turns()
    spare = SpareTime(turns)
    with spare.turn():
        assert len(turns._running) == 1
    spare.end()
    turns.arrive(Priority.EMERGENCY)
    spare.pause()
    with spare.turn():
        assert not turns._running, "an engine that starts again while an emergency waits for it must not wait for that"


@pytest.mark.parametrize("how", ["pause", "turn"])
def test_the_end_wakes_who_waits(how: str) -> None:
    turns = Turns()
    turns.arrive(Priority.EMERGENCY)
    spare, over = SpareTime(turns), threading.Event()

    def wait() -> None:
        if how == "pause":
            spare.pause()
        else:
            with spare.turn():
                pass
        over.set()

    thread = threading.Thread(target=wait)
    thread.start()
    assert not over.wait(0.05)
    spare.end()
    assert over.wait(5)
    thread.join(5)
