"""Bootstrap intervals of means over cases: Efron and Tibshirani, An Introduction to the Bootstrap, 1993, ch. 13."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

RESAMPLES = 2000
"""Draws; the ends of a 95 % interval then rest on 50 of them each."""

_DRAWN_AT_ONCE = 1 << 20


def bootstrap_mean(
    sums: Sequence[float], counts: Sequence[float] | None = None, *, confidence: float = 0.95, seed: int = 0
) -> tuple[float, float]:
    """The percentile interval of ``sum(sums) / sum(counts)`` over cases drawn anew. The same seed, the same interval.

    Whole cases are drawn, since tokens of one answer go wrong together. For a paired comparison give the differences
    of each case.

    Args:
        sums: One number a case.
        counts: How many values each is the sum of; one if not given.
        confidence: Between 0 and 1, exclusive.
        seed: Of the draws.

    Returns:
        Both ends; NaN if there are no cases, or one is not finite.
    """
    values = np.asarray(sums, np.float64)
    weights = np.ones_like(values) if counts is None else np.asarray(counts, np.float64)
    n = len(values)
    if not n or not weights.sum() or not np.isfinite(values).all():
        return math.nan, math.nan
    rng = np.random.default_rng(seed)
    means: list[np.ndarray[tuple[int, ...], np.dtype[np.float64]]] = []
    step = max(1, _DRAWN_AT_ONCE // n)
    for start in range(0, RESAMPLES, step):
        drawn = rng.integers(0, n, (min(step, RESAMPLES - start), n))
        with np.errstate(invalid="ignore", divide="ignore"):
            means.append(values[drawn].sum(axis=1) / weights[drawn].sum(axis=1))
    tail = 50 * (1 - confidence)
    low, high = np.nanpercentile(np.concatenate(means), [tail, 100 - tail])
    return float(low), float(high)
