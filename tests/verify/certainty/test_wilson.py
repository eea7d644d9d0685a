from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chipwise.verify.certainty.wilson import wilson_bounds, wilson_interval


@pytest.mark.parametrize(
    ("right", "cases", "low", "high"),
    [
        # Newcombe, Statist. Med. 17 (1998) 857, table I, method 3.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_published_intervals(right: int, cases: int, low: float, high: float) -> None:
    assert wilson_interval(right, cases) == pytest.approx((low, high), abs=5e-5)


@given(st.integers(1, 10_000), st.data())
def test_it_holds_the_share_and_mirrors(cases: int, data: st.DataObject) -> None:
    right = data.draw(st.integers(0, cases))
    low, high = wilson_interval(right, cases)
    assert 0 <= low <= right / cases <= high <= 1
    mirrored = wilson_interval(cases - right, cases)
    assert (1 - high, 1 - low) == pytest.approx(mirrored, abs=1e-12)


@given(st.integers(1, 500), st.floats(0.05, 0.95))
def test_its_ends_are_where_the_score_test_rejects(cases: int, share: float) -> None:
    right = round(cases * share)
    low, high = wilson_bounds(right, cases, 1.96)
    for end in {low, high} - {0.0, 1.0}:
        score = (right / cases - end) / math.sqrt(end * (1 - end) / cases)
        assert abs(score) == pytest.approx(1.96, rel=1e-6)


def test_nothing_is_known_of_no_cases() -> None:
    assert wilson_interval(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize(("right", "cases"), [(-1, 3), (4, 3)])
def test_counts_that_are_none(right: int, cases: int) -> None:
    with pytest.raises(ValueError, match="cases"):
        wilson_interval(right, cases)
