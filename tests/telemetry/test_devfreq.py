from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chipwise.telemetry.devfreq import DevfreqLoad, parse_load
from tests.telemetry.fakes import RK3588, detail, read

DEVICES = ("fdab0000.npu", "27700000.npu", "fde40000.npu", "ff300000.npu")
STEPS = "300000000 400000000 500000000 600000000 700000000 800000000 900000000 1000000000"


def files(device: str, **changes: str) -> dict[str, str]:
    said = {"cur_freq": "600000000", "available_frequencies": STEPS, "governor": "rknpu_ondemand", **changes}
    return {f"sys/class/devfreq/{device}/{name}": text for name, text in said.items()}


@pytest.mark.parametrize("device", DEVICES)
def test_every_chips_device(device: str) -> None:
    state = read(files(device))
    assert (state.clock_ratio.value, detail(state, "clock_hz/npu").value) == (0.6, 6e8)
    assert state.clock_ratio.source == f"sys/class/devfreq/{device}/cur_freq"


def test_load_line() -> None:
    assert parse_load("100@1000000000Hz") == DevfreqLoad(100, 1_000_000_000)
    assert parse_load("0") is None


@given(st.text(max_size=40))
def test_garbage_is_no_load(text: str) -> None:
    assert parse_load(text) is None or text.split("@")[0].isdigit()


def test_load_under_rknpu_ondemand_is_none() -> None:
    state = read({name: text for name, text in RK3588.items() if "debug" not in name})
    assert state.npu_load.value is None
    assert read(files("fb000000.gpu", governor="simple_ondemand", load="35@300000000Hz")).gpu_load.value == 0.35
    assert read(files("fb000000.gpu", load="100@300000000Hz")).gpu_load.value is None


def test_clock_of_zero_and_no_table_are_unknown() -> None:
    assert "'0' is no clock" in read(files("fdab0000.npu", cur_freq="0")).clock_ratio.unknown
    assert "lists none" in read(files("fdab0000.npu", available_frequencies="")).clock_ratio.unknown


def test_npu_goes_before_gpu() -> None:
    both = files("a.gpu", cur_freq="300000000") | files("b.npu", cur_freq="900000000")
    assert read(both).clock_ratio.value == 0.9
