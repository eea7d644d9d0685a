from __future__ import annotations

import errno

from hypothesis import given
from hypothesis import strategies as st

from chipwise.telemetry.hwmon import parse_microwatts, parse_milli
from tests.telemetry.fakes import detail, read

BASE = "sys/class/hwmon/hwmon0"


def test_jetsons_power_monitor_multiplies_volts_and_amperes() -> None:
    files = {f"{BASE}/name": "ina3221", f"{BASE}/in1_label": "VDD_IN", f"{BASE}/in1_input": "5000"}
    state = read({**files, f"{BASE}/curr1_input": "1200", f"{BASE}/in2_input": "1"})
    assert (state.power_w.value, state.power_w.source) == (6.0, f"{BASE}/in1_input x {BASE}/curr1_input")
    lost = read({**files, f"{BASE}/curr1_input": OSError(errno.ENODATA, "x")})
    assert (lost.power_w.value, lost.power_w.unknown) == (None, "No data available")


def test_power_of_a_part_is_not_the_boards() -> None:
    state = read({f"{BASE}/name": "amdgpu", f"{BASE}/power1_average": "5251000", f"{BASE}/power1_label": "PPT"})
    assert state.power_w.value is None
    assert detail(state, "power_w/PPT").value == 5.251


def test_processors_sensor_is_the_temperature_where_no_zone_is() -> None:
    files = {f"{BASE}/name": "coretemp", f"{BASE}/temp1_input": "61000", f"{BASE}/temp1_label": "Package id 0"}
    disk = {"sys/class/hwmon/hwmon1/name": "nvme", "sys/class/hwmon/hwmon1/temp1_input": "88000"}
    state = read({**files, **disk})
    assert state.temp_c.value == 61.0
    assert detail(state, "temp_c/coretemp/Package id 0").value == 61.0
    assert detail(state, "temp_c/nvme/temp1").value == 88.0
    assert read(disk).temp_c.value is None


@given(st.text(max_size=30))
def test_garbage(text: str) -> None:
    for parse in (parse_microwatts, parse_milli):
        found = parse(text)
        assert found is None or found >= 0
    assert (parse_microwatts("-1"), parse_milli("5088")) == (None, 5.088)
