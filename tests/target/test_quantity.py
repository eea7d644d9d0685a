from __future__ import annotations

import math

import pytest

from chipwise.target import Fact, Provenance, Quantity

SOURCE = Provenance("vendor", "sheet", "2026-11")


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf])
def test_unknown_is_never_a_number(value: float) -> None:
    with pytest.raises(ValueError, match="leave out what is unknown"):
        Quantity(value, "B", SOURCE)


def test_a_quantity_is_kept_in_a_base_unit() -> None:
    with pytest.raises(ValueError, match=r"unit: expected one of .*got 'GB/s'"):
        Quantity(1, "GB/s", SOURCE)


def test_a_quantity_is_a_number() -> None:
    quantity = Quantity(8192.0, "1", SOURCE)
    assert int(quantity) == 8192
    assert float(quantity) == 8192.0
    assert quantity.text() == "8,192"


@pytest.mark.parametrize(("value", "text"), [(True, "yes"), (False, "no"), (("a", "b"), "a, b"), ("tensor", "tensor")])
def test_a_fact_reads_well(value: object, text: str) -> None:
    assert Fact(value, SOURCE).text() == text
