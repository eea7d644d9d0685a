from __future__ import annotations

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chipwise.telemetry.rknpu import parse_load, parse_power, parse_version
from tests.telemetry.fakes import detail, read

DEBUG, PROC = "sys/kernel/debug/rknpu/load", "proc/rknpu/load"


@pytest.mark.parametrize(
    ("line", "percents"),
    [
        ("NPU load:  Core0:  0%, Core1:  0%, Core2:  0%,", (0, 0, 0)),
        ("NPU load:  Core0: 63%, Core1: 65%, Core2: 64%,", (63, 65, 64)),
        ("NPU load:  Core0: 12%, Core1: 100%,", (12, 100)),
        ("NPU load:  0%", (0,)),
        ("NPU load:  Core0: 137%, Core1:  0%, Core2:  0%,", (137, 0, 0)),
        ("", None),
        ("NPU load:", None),
        ("NPU load:  Core0: -1%,", None),
        ("NPU load:  Core0: 63%, Core1:", None),
        ("bash: cat: Invalid argument", None),
    ],
)
def test_load_lines(line: str, percents: tuple[int, ...] | None) -> None:
    assert parse_load(line) == percents


def test_siblings() -> None:
    assert parse_version("RKNPU driver: v0.9.8") == "0.9.8"
    assert parse_version("RKNPU driver") is None
    assert (parse_power("on"), parse_power("off"), parse_power("")) == (True, False, None)


@given(st.text(max_size=80))
def test_garbage_is_no_load(text: str) -> None:
    found = parse_load(text)
    assert found is None or all(percent >= 0 for percent in found)


def test_mean_over_cores_and_each() -> None:
    state = read({DEBUG: "NPU load:  Core0: 60%, Core1: 30%, Core2:  0%,"})
    assert state.npu_load.value == pytest.approx(0.3)
    assert (state.npu_load.source, detail(state, "npu_load/core1").value) == (DEBUG, 0.3)


def test_more_than_all_is_clamped_and_said() -> None:
    state = read({DEBUG: "NPU load:  137%"})
    assert (state.npu_load.value, state.npu_load.note) == (1.0, "the driver says 137 %, counted as 100")


def test_procfs_stands_in_where_debugfs_is_roots() -> None:
    denied = PermissionError(errno.EACCES, "Permission denied")
    assert read({DEBUG: denied, PROC: "NPU load:  7%"}).npu_load.value == 0.07
    state = read({DEBUG: denied})
    assert state.npu_load.value is None
    assert state.npu_load.unknown == "permission denied (root may read it)"
    assert state.npu_load.source == DEBUG


def test_mainline_driver_tells_none() -> None:
    assert "rocket" in read({"proc/meminfo": "x"}).npu_load.unknown


def test_clock() -> None:
    files = {DEBUG: "NPU load:  0%", "sys/kernel/debug/rknpu/freq": "1000000000"}
    assert detail(read(files), "clock_hz/rknpu").value == 1e9
    assert "is no clock" in detail(read(files | {"sys/kernel/debug/rknpu/freq": "0"}), "clock_hz/rknpu").unknown
