from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chipwise.verify.certainty.bootstrap import bootstrap_mean


def test_it_is_the_normal_interval_for_many_cases() -> None:
    values = np.random.default_rng(3).exponential(1.0, 400)
    low, high = bootstrap_mean(values.tolist())
    half = 1.96 * values.std() / 20
    assert (low, high) == pytest.approx((values.mean() - half, values.mean() + half), abs=0.02)
    assert bootstrap_mean(values.tolist()) == (low, high)
    assert bootstrap_mean(values.tolist(), seed=1) != (low, high)


def test_whole_cases_are_drawn() -> None:
    # Ten cases of a hundred tokens each say no more than ten.
    sums, counts = [0.0, 100.0] * 5, [100.0] * 10
    low, high = bootstrap_mean(sums, counts)
    assert high - low > 0.4


@settings(max_examples=30)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30), st.integers(0, 99))
def test_it_lies_within_the_values(values: list[float], seed: int) -> None:
    low, high = bootstrap_mean(values, seed=seed)
    assert min(values) - 1e-6 <= low <= high <= max(values) + 1e-6


@pytest.mark.parametrize("values", [[], [1.0, math.nan], [math.inf]])
def test_what_has_no_interval(values: list[float]) -> None:
    assert all(map(math.isnan, bootstrap_mean(values)))
    assert all(map(math.isnan, bootstrap_mean([1.0], [0.0])))
