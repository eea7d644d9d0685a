from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chipwise.verify.certainty.paired import loss_interval, not_worse

Z2 = NormalDist().inv_cdf(0.975) ** 2


@st.composite
def counts(draw: st.DrawFn) -> tuple[int, int, int]:
    cases = draw(st.integers(1, 2000))
    broke = draw(st.integers(0, cases))
    return broke, draw(st.integers(0, cases - broke)), cases


@pytest.mark.parametrize("cases", [1, 20, 100, 300])
def test_nothing_broken_still_leaves_room_for_loss(cases: int) -> None:
    assert loss_interval(0, 0, cases) == pytest.approx((-Z2 / (cases + Z2), Z2 / (cases + Z2)), abs=1e-9)


@given(counts())
def test_it_holds_the_loss_and_mirrors(found: tuple[int, int, int]) -> None:
    broke, fixed, cases = found
    low, high = loss_interval(broke, fixed, cases)
    assert -1 <= low <= (broke - fixed) / cases + 1e-9
    assert (broke - fixed) / cases - 1e-9 <= high <= 1
    assert loss_interval(fixed, broke, cases) == pytest.approx((-high, -low), abs=1e-9)


@given(counts(), st.floats(0.001, 0.5))
def test_the_test_and_the_interval_agree(found: tuple[int, int, int], margin: float) -> None:
    _, high = loss_interval(*found, confidence=0.9)
    p = not_worse(*found, margin)
    if abs(high - margin) > 1e-6:
        assert (p < 0.05) == (high < margin)


def test_it_holds_the_truth_as_often_as_it_says() -> None:
    # 40 pairs of (0.1, 0.05) and 100 of (0.04, 0.01): Tango found coverage near the nominal 95 %.
    rng = np.random.default_rng(5)
    for cases, broke, fixed in ((40, 0.1, 0.05), (100, 0.04, 0.01), (300, 0.02, 0.0)):
        drawn = rng.multinomial(cases, [broke, fixed, 1 - broke - fixed], 1500)
        ends = {pair: loss_interval(*pair, cases) for pair in {(int(b), int(f)) for b, f, _ in drawn}}
        held = [ends[int(b), int(f)][0] <= broke - fixed <= ends[int(b), int(f)][1] for b, f, _ in drawn]
        assert 0.925 < np.mean(held) < 0.99


def test_nothing_is_known_of_no_cases() -> None:
    assert loss_interval(0, 0, 0) == (-1.0, 1.0)
    assert not_worse(0, 0, 0, 0.03) == 1.0


@pytest.mark.parametrize("found", [(-1, 0, 3), (2, 2, 3)])
def test_counts_that_are_none(found: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="broke"):
        loss_interval(*found)
