from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from chipwise.quant.affine import affine
from chipwise.quant.histogram import BINS, Histogram

_SAMPLES = st.lists(
    arrays(np.float32, st.integers(0, 30), elements=st.floats(-1e6, 1e6, width=32)), min_size=1, max_size=5
)


@given(parts=_SAMPLES)
def test_every_value_is_counted_once(parts: list[np.ndarray]) -> None:
    histogram = Histogram()
    for part in parts:
        histogram.add(part)
    low, high = histogram.span(1.0)
    everything = np.concatenate(parts)
    if everything.size and np.abs(everything).max() > 0:
        width = 2 * histogram.limit / BINS
        counted = histogram.counts.sum() + histogram._zeros
        assert counted == everything.size
        assert low <= max(everything.min(), -histogram.limit) + 1e-6
        assert high >= everything.max() - 1e-6
        assert high - low <= everything.max() - min(everything.min(), 0) + 2 * width + max(-everything.max(), 0)
    else:
        assert (low, high) == (0.0, 0.0)


def test_a_rare_value_is_left_out() -> None:
    histogram = Histogram()
    histogram.add(np.random.default_rng(0).uniform(-1, 1, 100_000))
    histogram.add(np.array([1000.0]))
    low, high = histogram.span(0.999)
    width = 2 * histogram.limit / BINS
    assert -1 - width <= low <= -0.99 + width
    assert 0.99 - width <= high <= 1 + width
    assert histogram.span(1.0)[1] >= 1000


def test_memory_does_not_grow_with_what_was_seen() -> None:
    histogram, sample = Histogram(), np.random.default_rng(0).normal(size=50_000).astype(np.float32)
    histogram.add(sample)
    tracemalloc.start()
    for scale in np.logspace(0, 3, 40):
        histogram.add(sample * np.float32(scale))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 3 * BINS * 8
    assert histogram.counts.sum() == 41 * sample.size


@pytest.mark.parametrize("seed", range(3))
def test_the_ends_of_least_error_lose_less_than_the_whole_range(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = np.concatenate([rng.normal(size=100_000), rng.normal(size=20) * 30]).astype(np.float32)
    histogram = Histogram()
    histogram.add(values)
    low, high = histogram.least_error(float(values.min()), float(values.max()))
    assert values.min() <= low < high <= values.max()

    def error(ends: tuple[float, float]) -> float:
        return float(np.square(affine(*ends).round_trip(values) - values).sum())

    assert error((low, high)) < 0.9 * error((float(values.min()), float(values.max())))
    # No other pair of ends on a grid is much better.
    grid = [(values.min() * a, values.max() * b) for a in np.linspace(1, 0.1, 10) for b in np.linspace(1, 0.1, 10)]
    assert error((low, high)) < 1.1 * min(error((float(a), float(b))) for a, b in grid)


def test_few_huge_values_that_carry_the_energy_stay() -> None:
    histogram, values = Histogram(), np.concatenate([np.random.default_rng(0).normal(size=1000), [20_000.0]])
    histogram.add(values)
    assert histogram.least_error(float(values.min()), 20_000.0)[1] > 19_000
