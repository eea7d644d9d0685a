from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chipwise.sim import Activity, VirtualBoard, board_names, load_spec
from chipwise.sim.governor import StepWise

FULL = Activity(1.0, 1.0)


def test_governor_steps_once_and_holds_between_its_limits() -> None:
    governor = StepWise(85.0, 2.0, 7)
    steps = [governor.next_step(step, temp) for step, temp in ((7, 85.0), (0, 99.0), (3, 84.0), (3, 82.9), (7, 20.0))]
    assert steps == [6, 0, 3, 4, 7]


@given(st.lists(st.floats(0.0001, 3.0), min_size=1, max_size=40))
@settings(max_examples=30)
def test_time_in_parts_is_the_time_at_once(parts_s: list[float]) -> None:
    one, many = (VirtualBoard(load_spec("rk3588"), 60.0) for _ in range(2))
    one.advance(sum(parts_s), FULL)
    for part_s in parts_s:
        many.advance(part_s, FULL)
    assert many.now_s == pytest.approx(one.now_s)
    assert abs(many.hottest_c - one.hottest_c) < 1e-6 or abs(sum(parts_s) - round(sum(parts_s))) < 1e-6


@pytest.mark.parametrize("name", board_names())
def test_hot_air_throttles_and_hotter_air_switches_off(name: str) -> None:
    spec = load_spec(name)
    warm, hot = VirtualBoard(spec, 60.0), VirtualBoard(spec, spec.parameters.critical_c.value - 1)
    warm.advance(3600, Activity(1.0, 0.3))
    assert warm.clock_ratio < 1
    assert warm.throttled_s > 600
    assert not warm.shut_down
    hot.advance(3600, FULL)
    assert hot.shut_down
    hot.advance(10, FULL)
    assert hot.power_w == 0


def test_lower_clock_draws_less_than_in_proportion() -> None:
    board = VirtualBoard(load_spec("rk3588"))
    board.advance(1, Activity(1.0))
    full_w = board.power_w - 1.6
    board.cap_clock(500e6)
    board.advance(1, Activity(1.0))
    assert board.clock_ratio == 0.5
    assert board.power_w - 1.6 < 0.5 * full_w


@pytest.mark.parametrize(("hz", "clock_hz"), [(650e6, 600e6), (1, 300e6), (None, 1e9), (0, 1e9), (5e9, 1e9)])
def test_cap_is_a_clock_of_the_table(hz: float | None, clock_hz: float) -> None:
    board = VirtualBoard(load_spec("rk3588"))
    board.cap_clock(hz)
    assert board.clock_hz == clock_hz


def test_load_is_the_mean_of_the_last_period() -> None:
    board = VirtualBoard(load_spec("rk3576"))
    board.advance(0.25, Activity(1.0, 0.5))
    board.advance(0.75)
    assert (board.accelerator_load, board.cpu_load) == (0.25, 0.125)
