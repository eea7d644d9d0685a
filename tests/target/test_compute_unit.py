from __future__ import annotations

import pytest

from chipwise.target import ComputeUnit, Provenance, Quantity

SOURCE = Provenance("vendor", "sheet", "2026-11")


def _unit(**fields: object) -> ComputeUnit:
    return ComputeUnit("npu", "npu", **fields)  # type: ignore[arg-type]


def test_ops_come_from_cores_clock_and_macs() -> None:
    unit = _unit(
        count=Quantity(3, "1", SOURCE),
        clock_hz=Quantity(1e9, "Hz", SOURCE),
        macs_per_cycle={"int8": Quantity(1024, "MAC/cycle", SOURCE)},
    )
    assert unit.ops_per_cycle("int8") == 2048
    assert unit.ops_per_s("int8") == 6.144e12


def test_a_stated_figure_comes_first() -> None:
    unit = _unit(
        count=Quantity(1, "1", SOURCE),
        clock_hz=Quantity(1e9, "Hz", SOURCE),
        macs_per_cycle={"int8": Quantity(100, "MAC/cycle", SOURCE)},
        peak_ops={"int8": Quantity(3e12, "op/s", SOURCE)},
    )
    assert unit.ops_per_s("int8") == 3e12


def test_what_is_unknown_stays_unknown() -> None:
    unit = _unit(macs_per_cycle={"int8": Quantity(100, "MAC/cycle", SOURCE)})
    assert unit.ops_per_s("int8") is None
    assert unit.ops_per_s("fp16") is None
    assert unit.ops_per_cycle("fp16") is None


def test_operations_are_not_macs() -> None:
    with pytest.raises(ValueError, match="macs_per_cycle: expected MAC/cycle, got op/s"):
        _unit(macs_per_cycle={"int8": Quantity(100, "op/s", SOURCE)})
