from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from chipwise.telemetry.meminfo import Meminfo, parse_meminfo
from tests.telemetry.fakes import RK3588, read


def test_free_and_total() -> None:
    state = read(RK3588)
    assert (state.free_bytes.value, state.total_bytes.value) == (5123456 * 1024, 8029520 * 1024)


def test_old_kernel_without_available_is_unknown() -> None:
    state = read({"proc/meminfo": "MemTotal: 100 kB\nMemFree: 50 kB\n"})
    assert state.free_bytes.unknown == "it has no line MemAvailable"
    assert read({"proc/version": "x"}).free_bytes.unknown == "not there"


@given(st.text(max_size=100))
def test_garbage(text: str) -> None:
    assert parse_meminfo(text) == Meminfo(None, None)
