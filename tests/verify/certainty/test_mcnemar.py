from __future__ import annotations

from math import comb

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chipwise.verify.certainty.mcnemar import mcnemar, worse

COUNTS = st.integers(0, 60)


@pytest.mark.parametrize(
    ("broke", "fixed", "exact", "mid"),
    [
        # Fagerland, Lydersen and Laake (2013), tables 1 and 5: airway hyper-responsiveness, complete response.
        (1, 7, 0.0703, 0.0391),
        (0, 0, 1.0, 1.0),
        (5, 5, 1.0, 1.0),
        (10, 0, 2 / 1024, 1 / 1024),
    ],
)
def test_published_values(broke: int, fixed: int, exact: float, mid: float) -> None:
    assert mcnemar(broke, fixed) == pytest.approx(exact, abs=5e-5)
    assert mcnemar(broke, fixed, mid=True) == pytest.approx(mid, abs=5e-5)


@given(COUNTS, COUNTS)
def test_it_is_the_binomial_tail_and_symmetric(broke: int, fixed: int) -> None:
    n = broke + fixed
    tail = sum(comb(n, i) for i in range(min(broke, fixed) + 1)) / 2**n
    assert mcnemar(broke, fixed) == pytest.approx(min(1.0, 2 * tail), rel=1e-9)
    assert mcnemar(broke, fixed) == mcnemar(fixed, broke)
    assert mcnemar(broke, fixed, mid=True) <= mcnemar(broke, fixed)


@given(COUNTS, COUNTS)
@example(0, 58)
def test_more_that_broke_is_more_surely_worse(broke: int, fixed: int) -> None:
    assert worse(broke + 1, fixed) <= worse(broke, fixed) <= 1.0
    # Far up, both are 1 to the last digit.
    assert worse(broke + 1, fixed) < worse(broke, fixed) or worse(broke + 1, fixed) > 1 - 1e-12
    assert worse(broke, fixed) + worse(fixed, broke) == pytest.approx(1.0)


def test_many_flips_do_not_overflow() -> None:
    assert mcnemar(50_000, 50_000) == 1.0
    assert mcnemar(60_000, 40_000) == 0.0


def test_counts_that_are_none() -> None:
    with pytest.raises(ValueError, match="broke"):
        mcnemar(-1, 3)
