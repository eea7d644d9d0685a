from __future__ import annotations

import math

import pytest

from chipwise.telemetry.reading import Reading, unknown
from chipwise.telemetry.state import compose
from tests.telemetry.fakes import RK3588, read


def test_a_whole_board() -> None:
    state = read(RK3588)
    known = {reading.name: reading.value for reading in state.summary if reading.value is not None}
    assert known == {
        "temp_c": 51.6,
        "free_bytes": 5123456 * 1024,
        "total_bytes": 8029520 * 1024,
        "clock_ratio": 0.8,
        "npu_load": 0.64,
        "cpu_pressure": 0.015,
        "memory_pressure": 0.0,
    }
    assert all(reading.unknown for reading in state.summary if reading.name not in known)


def test_a_board_of_which_nothing_is_known_has_no_zeros() -> None:
    assert all(reading.value is None and reading.unknown for reading in read({"proc/x": ""}).summary)


def test_first_that_knows_counts_and_reasons_are_joined() -> None:
    lost, found = unknown("temp_c", "C", "a", "gone"), Reading("temp_c", 50.0, "C", "b")
    assert compose(0.0, [lost, found]).temp_c == found
    assert compose(0.0, [lost, unknown("temp_c", "C", "b", "off")]).temp_c.unknown == "gone; off"


@pytest.mark.parametrize("value", [None, math.nan, math.inf])
def test_reading_needs_a_value_or_a_reason(value: float | None) -> None:
    with pytest.raises(ValueError, match="temp_c"):
        Reading("temp_c", value, "C", "a")
    with pytest.raises(ValueError, match="temp_c"):
        Reading("temp_c", 1.0, "C", "a", unknown="why")
