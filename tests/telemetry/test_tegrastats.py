from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chipwise.telemetry.tegrastats import PATH, parse_line
from tests.telemetry.fakes import detail, read

LINE = (
    "10-08-2026 04:38:21 RAM 1343/7620MB (lfb 157x4MB) SWAP 165/3810MB (cached 3MB) CPU [0%@1497,0%@729,0%@729,0%@729,"
    "0%@729,0%@729] EMC_FREQ 15%@204 GR3D_FREQ 0%@[305] NVDEC off NVJPG off VIC off OFA off APE 200 cpu@48.562C "
    "soc2@46.593C soc0@48.625C gpu@49.625C tj@49.312C soc1@47.937C VDD_IN 5251mW/8535mW VDD_CPU_GPU_CV 512mW/1944mW "
    "VDD_SOC 2720mW/3659mW"
)


def test_the_whole_line() -> None:
    found = parse_line(LINE)
    assert found is not None
    assert (found.used_bytes, found.total_bytes) == (1343 << 20, 7620 << 20)
    assert found.cpu_load == (0.0,) * 6
    assert found.cpu_hz == (1497e6, *(729e6,) * 5)
    assert (found.gpu_load, found.gpu_hz, found.memory_load) == (0.0, 305e6, 0.15)
    assert found.temps_c == {
        "cpu": 48.562, "soc2": 46.593, "soc0": 48.625, "gpu": 49.625, "tj": 49.312, "soc1": 47.937
    }  # fmt: skip
    assert found.rails_w == {"VDD_IN": 5.251, "VDD_CPU_GPU_CV": 0.512, "VDD_SOC": 2.72}


def test_fields_that_vary() -> None:
    found = parse_line("RAM 1/2MB CPU [12%@1497,off,off] GR3D_FREQ 99% GPU@-256C")
    assert found is not None
    assert (found.cpu_load, found.cpu_hz) == ((0.12, None, None), (1497e6, None, None))
    assert (found.gpu_load, found.gpu_hz, found.memory_load) == (0.99, None, None)
    assert found.temps_c == {"GPU": None}
    assert found.rails_w == {}


@given(st.one_of(st.text(max_size=100), st.integers(0, len(LINE)).map(lambda n: LINE[:n])))
def test_garbage_and_cut_lines(line: str) -> None:
    found = parse_line(line)
    assert found is None or all(t is None or -50 <= t <= 150 for t in found.temps_c.values())


def test_state_of_a_jetson() -> None:
    state = read({PATH: f"old line\n{LINE}\n"})
    assert (state.temp_c.value, state.temp_c.note) == (49.625, "the hottest, gpu")
    assert (state.power_w.value, state.gpu_load.value) == (5.251, 0.0)
    assert state.free_bytes.value == (7620 - 1343) << 20
    assert detail(state, "power_w/VDD_SOC").value == 2.72
    assert detail(state, "cpu_load").value == 0.0


@pytest.mark.parametrize("text", ["tegrastats: command not found", ""])
def test_other_words_are_unknown(text: str) -> None:
    state = read({PATH: text})
    assert state.temp_c.value is None
    assert state.power_w.value is None


def test_a_line_without_the_input_rail() -> None:
    state = read({PATH: "GR3D_FREQ 5% VDD_GPU 100mW/100mW gpu@50C"})
    assert "no VDD_IN" in state.power_w.unknown
    assert detail(state, "power_w/VDD_GPU").value == 0.1
