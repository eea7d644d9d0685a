from __future__ import annotations

import logging

import pytest

from benchmarks.rehearsal import BUDGET_S, most_in_an_hour, rehearse
from benchmarks.rehearsal_load import arrivals
from chipwise.serve.request.priority import Priority


def test_load_comes_in_order_and_again_the_same() -> None:
    first, again = (list(arrivals(3600.0, 1, 12 * 3600.0)) for _ in range(2))
    times = [request.arrived_s for request in first]
    assert times == sorted(times)
    assert {request.priority for request in first} == set(Priority)
    assert [(r.id, r.arrived_s) for r in first] == [(r.id, r.arrived_s) for r in again]
    night = list(arrivals(3600.0, 1, 0.0))
    assert len(first) > 3 * len(night)


def test_half_an_hour_of_a_hot_afternoon(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        run = rehearse("rk3588", 0.5, 3, with_policy=True, start_s=14 * 3600.0)
    assert run.peak_c < 85.0
    assert run.kernel_throttled_s == 0
    assert run.changes > 0
    assert run.least_distance_s is None or run.least_distance_s >= 5.0
    emergencies = run.served[Priority.EMERGENCY]
    assert emergencies.asked == emergencies.answered > 0
    assert emergencies.whole_max_s < BUDGET_S
    assert run.late_emergencies == 0
    for one in run.served:
        assert one.asked == one.refused + one.answered, f"{one.priority} requests were lost"


def test_most_in_an_hour() -> None:
    assert most_in_an_hour([]) == 0
    assert most_in_an_hour([0.0, 10.0, 3600.0, 3611.0, 9000.0]) == 3
