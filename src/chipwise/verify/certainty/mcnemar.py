"""McNemar's test of flips: Psychometrika 12 (1947) 153; mid-p: Fagerland et al., BMC Med. Res. Methodol. 13:91."""

from __future__ import annotations

import math


def mcnemar(broke: int, fixed: int, *, mid: bool = False) -> float:
    """The two-sided p-value of as many flips or more unequal ones, if a flip goes either way with equal chance.

    Args:
        broke: Cases that went from right to wrong.
        fixed: Cases that went from wrong to right.
        mid: Whether to count the observed value itself by half (mid-p), which is less conservative than the exact
            test and keeps its level nearly always.

    Raises:
        ValueError: A count is negative.
    """
    if min(broke, fixed) < 0:
        raise ValueError(f"{broke} broke, {fixed} fixed")
    flips, fewer = broke + fixed, min(broke, fixed)
    if mid:
        value = 2 * _at_most(fewer, flips) - _exactly(fewer, flips)
        return 1.0 if broke == fixed else min(1.0, value)
    return min(1.0, 2 * _at_most(fewer, flips))


def worse(broke: int, fixed: int) -> float:
    """The one-sided mid-p value that the candidate is worse: small if many more broke than were fixed."""
    if fixed > broke:
        # The small tail is summed: the large one would be 1 less what rounding leaves of it.
        return 1.0 - worse(fixed, broke)
    flips = broke + fixed
    return _at_most(fixed, flips) - 0.5 * _exactly(fixed, flips)


def _exactly(k: int, n: int) -> float:
    return math.exp(math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) - n * math.log(2))


def _at_most(k: int, n: int) -> float:
    return min(1.0, math.fsum(_exactly(i, n) for i in range(k + 1)))
