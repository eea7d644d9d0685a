from __future__ import annotations

import logging
import resource

import pytest

from chipwise.serve.connection.crowd import Crowd


class Guest:
    def __init__(self, idle_since_s: float | None) -> None:
        self.idle_since_s = idle_since_s
        self.out = False

    def show_out(self) -> None:
        self.out = True


def test_who_has_been_idle_longest_goes() -> None:
    busy, late, early, came = Guest(None), Guest(5.0), Guest(2.0), Guest(1.0)
    assert Crowd(3).admit(came, [busy, late, early, came])
    assert [one.out for one in (busy, late, early, came)] == [False, False, True, False]


def test_where_there_is_room_nobody_goes() -> None:
    guests = [Guest(1.0), Guest(2.0), Guest(3.0)]
    assert Crowd(3).admit(guests[-1], guests)
    assert not any(one.out for one in guests)


def test_who_has_a_request_is_never_closed() -> None:
    guests = [Guest(None), Guest(None), Guest(3.0)]
    assert not Crowd(2).admit(guests[-1], guests)
    assert not any(one.out for one in guests)


def test_it_is_said_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    times_s = iter((100.0, 130.0, 159.0, 160.0))
    crowd = Crowd(1, clock=lambda: next(times_s))
    with caplog.at_level(logging.WARNING):
        for _ in range(4):
            came = Guest(2.0)
            crowd.admit(came, [Guest(1.0), came])
    assert len(caplog.records) == 2


def test_as_many_as_descriptors_leave() -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert soft // 2 <= Crowd().most < soft
