from __future__ import annotations

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chipwise.telemetry.thermal import parse_millidegrees
from tests.telemetry.fakes import RK3588, Content, detail, read

MAINLINE_3588 = (
    *("package-thermal", "bigcore0-thermal", "bigcore2-thermal", "littlecore-thermal", "gpu-thermal", "npu-thermal"),
)
MAINLINE_3576 = (
    *("package-thermal", "bigcore-thermal", "littlecore-thermal", "gpu-thermal", "npu-thermal", "ddr-thermal"),
)


def zones(*kinds: str, temps: tuple[Content, ...] = (), trips: bool = False) -> dict[str, Content]:
    found: dict[str, Content] = {}
    for n, kind in enumerate(kinds):
        base = f"sys/class/thermal/thermal_zone{n}"
        found |= {f"{base}/type": kind, f"{base}/temp": temps[n] if temps else str(40_000 + 1000 * n)}
        if trips:
            found |= {f"{base}/trip_point_0_type": "passive", f"{base}/trip_point_0_temp": "85000"}
            found |= {f"{base}/trip_point_1_type": "critical", f"{base}/trip_point_1_temp": "115000"}
    return found


def test_millidegrees() -> None:
    assert parse_millidegrees("43400") == 43.4
    assert parse_millidegrees("-5000") == -5.0
    assert [parse_millidegrees(text) for text in ("", "43.4", "-274000", "999999999", "0x10", "４３")] == [None] * 6


@given(st.text(max_size=30))
def test_garbage_is_no_temperature(text: str) -> None:
    found = parse_millidegrees(text)
    assert found is None or -50 <= found <= 150


@pytest.mark.parametrize("kinds", [MAINLINE_3588, MAINLINE_3576])
def test_mainline_zones(kinds: tuple[str, ...]) -> None:
    state = read(zones(*kinds, trips=True))
    assert state.temp_c.value == 45.0
    assert state.temp_c.note == f"the hottest, {kinds[-1]}"
    assert (state.passive_c.value, state.critical_c.value) == (85.0, 115.0)
    assert detail(state, "temp_c/package-thermal").value == 40.0


def test_vendor_zones_by_type() -> None:
    state = read(RK3588)
    assert (state.temp_c.value, state.temp_c.source) == (51.6, "sys/class/thermal/thermal_zone6/temp")
    assert state.passive_c.value is None


def test_other_zones_count_only_without_the_chips() -> None:
    hot_radio = zones("iwlwifi_1", "cpu-thermal", temps=("95000", "50000"))
    assert read(hot_radio).temp_c.value == 50.0
    assert read(zones("acpitz", "battery")).temp_c.value == 41.0


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EAGAIN, "Resource temporarily unavailable"),
        (errno.EINVAL, "Invalid argument"),
        (errno.ENODATA, "No data available"),
        (errno.ETIMEDOUT, "Connection timed out"),
    ],
)
def test_lost_zone_is_unknown_and_named(number: int, words: str) -> None:
    state = read(zones("cpu-thermal", "gpu-thermal", temps=("50000", OSError(number, "x"))))
    assert detail(state, "temp_c/gpu-thermal").unknown == words
    assert (state.temp_c.value, state.temp_c.note) == (
        50.0,
        f"the hottest, cpu-thermal; unknown are gpu-thermal: {words}",
    )
    lost = read(zones("gpu-thermal", temps=(OSError(number, "x"),)))
    assert lost.temp_c.value is None
    assert words in lost.temp_c.unknown


def test_switched_off_sensor_is_not_cold() -> None:
    assert read(zones("gpu-thermal", temps=("-274000",))).temp_c.value is None


def test_zones_of_one_type_are_told_apart() -> None:
    state = read(zones("cpu-thermal", "cpu-thermal"))
    assert detail(state, "temp_c/cpu-thermal").value == 40.0
    assert detail(state, "temp_c/cpu-thermal#2").value == 41.0
