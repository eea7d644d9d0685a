from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from chipwise.telemetry.pressure import parse_pressure
from tests.telemetry.fakes import RK3588, read


def test_share_of_ten_seconds() -> None:
    state = read(RK3588)
    assert (state.cpu_pressure.value, state.memory_pressure.value) == (0.015, 0.0)


def test_kernel_without_it() -> None:
    assert read({"proc/meminfo": "x"}).cpu_pressure.unknown == "not there"
    assert "is no pressure" in read({"proc/pressure/cpu": "some avg10=x"}).cpu_pressure.unknown


@given(st.text(max_size=100))
def test_garbage(text: str) -> None:
    found = parse_pressure(text)
    assert found is None or 0 <= found <= 1
