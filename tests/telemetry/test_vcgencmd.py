from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from chipwise.telemetry.vcgencmd import TEMP, THROTTLED, Throttled, parse_temp, parse_throttled
from tests.telemetry.fakes import read


def test_lines() -> None:
    assert parse_temp("temp=39.2'C") == 39.2
    assert parse_temp("VCHI initialization failed") is None
    assert parse_throttled("throttled=0x50000") == Throttled((), ("under-voltage", "throttled"))
    assert parse_throttled("throttled=0x0") == Throttled((), ())
    assert parse_throttled("throttled=0xE0008") == Throttled(
        ("soft temperature limit",), ("clock capped", "throttled", "soft temperature limit")
    )
    assert parse_throttled("throttled=") is None


@given(st.text(max_size=40))
def test_garbage(text: str) -> None:
    assert parse_temp(text) is None or text.startswith("temp=")
    assert parse_throttled(text) is None or text.startswith("throttled=")


def test_state_of_a_raspberry_pi() -> None:
    state = read({TEMP: "temp=39.2'C\n", THROTTLED: "throttled=0x50005\n"})
    assert (state.temp_c.value, state.temp_c.source) == (39.2, "vcgencmd measure_temp")
    assert state.throttled.value == 1.0
    assert state.throttled.note == "now: under-voltage, throttled; since the start: under-voltage, throttled"
    before = read({TEMP: "temp=39.2'C\n", THROTTLED: "throttled=0x50000\n"})
    assert before.throttled.value == 0.0
