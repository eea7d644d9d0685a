from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from chipwise.telemetry.cpufreq import FOLDER, parse_kilohertz
from tests.telemetry.fakes import RK3588, detail, read


def test_clusters() -> None:
    state = read(RK3588)
    assert detail(state, "clock_hz/policy0").value == 1.008e9
    assert detail(state, "clock_ratio/policy0").value == 0.56


def test_lost_clock() -> None:
    state = read({f"{FOLDER}/policy4/scaling_cur_freq": "<unknown>"})
    assert detail(state, "clock_hz/policy4").unknown == "'<unknown>' is no clock"


@given(st.text(max_size=30))
def test_garbage(text: str) -> None:
    found = parse_kilohertz(text)
    assert found is None or found > 0
