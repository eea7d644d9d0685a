from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chipwise.target import MemoryRegion, Provenance, Quantity
from chipwise.target.units import UNITS, human, parse

SOURCE = Provenance("vendor", "sheet", "2026-11")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("43.8 GB/s", (43.8e9, "B/s")),
        ("384 KiB", (393216.0, "B")),
        ("16 GB", (16e9, "B")),
        ("1 GHz", (1e9, "Hz")),
        ("6 TOPS", (6e12, "op/s")),
        ("500 ns", (500e-9, "s")),
        ("2_048 MAC/cycle", (2048.0, "MAC/cycle")),
        ("1.5e3 MHz", (1.5e9, "Hz")),
        ("8GiB", (8.0 * 2**30, "B")),
    ],
)
def test_parse_reads_a_number_and_its_unit(text: str, expected: tuple[float, str]) -> None:
    value, unit = parse(text) or (0.0, "")
    assert unit == expected[1]
    assert value == pytest.approx(expected[0], rel=1e-12)


@pytest.mark.parametrize("text", ["tensor", "fdab0000.npu", "27700000.npu", "", "GB/s", "1.2.3 GB"])
def test_parse_leaves_other_text_alone(text: str) -> None:
    assert parse(text) is None


@pytest.mark.parametrize("text", ["43.8 GBps", "3 cores", "1 ghz"])
def test_parse_refuses_a_unit_it_does_not_know(text: str) -> None:
    with pytest.raises(ValueError, match=r"unknown unit .*GB/s"):
        parse(text)


@given(st.text(max_size=40))
def test_parse_of_anything_is_a_number_none_or_a_clear_error(text: str) -> None:
    try:
        parsed = parse(text)
    except ValueError:  # a unit nobody knows; anything else would fail the test
        return
    assert parsed is None or parsed[1] in {base for base, _ in UNITS.values()}


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (43.776e9, "B/s", "43.78 GB/s"),
        (500e6, "B/s", "500 MB/s"),
        (393216, "B", "384 KiB"),
        (32, "B", "32 B"),
        (6.144e12, "op/s", "6.144 TOPS"),
        (128e-9, "s", "128 ns"),
        (49152, "1", "49,152"),
        (1.5, "1", "1.5"),
        (16384, "token", "16,384 token"),
        (1e9, "Hz", "1 GHz"),
    ],
)
def test_human_reads_well(value: float, unit: str, expected: str) -> None:
    assert human(value, unit) == expected


@given(st.floats(1e-9, 1e15), st.sampled_from([u for u in UNITS if u != "1"]))
def test_what_human_writes_parse_reads_back(value: float, unit: str) -> None:
    base, _ = UNITS[unit]
    back = parse(human(value, base).replace("GOPS", "Gop/s").replace(",", ""))
    assert back is not None
    assert back[1] == base
    assert back[0] == pytest.approx(value, rel=1e-3)


def test_a_field_refuses_a_quantity_of_another_unit() -> None:
    with pytest.raises(ValueError, match="read_bps: expected B/s, got Hz"):
        MemoryRegion("dram", "main", read_bps=Quantity(1e9, "Hz", SOURCE))
    with pytest.raises(ValueError, match="bus_bits: expected a plain number, got B"):
        MemoryRegion("dram", "main", bus_bits=Quantity(64, "B", SOURCE))
