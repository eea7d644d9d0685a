"""Wilson's interval of a share: Wilson, J. Am. Stat. Assoc. 22 (1927) 209."""

from __future__ import annotations

import math
from statistics import NormalDist


def wilson_interval(right: float, cases: float, confidence: float = 0.95) -> tuple[float, float]:
    """The interval that holds the true share with some confidence, two-sided.

    Args:
        right: Cases that are right, 0 to ``cases``.
        cases: All cases; of none nothing is known, which is the interval from 0 to 1.
        confidence: Between 0 and 1, exclusive.

    Raises:
        ValueError: A count or the confidence is out of its range.
    """
    return wilson_bounds(right, cases, NormalDist().inv_cdf((1 + confidence) / 2))


def wilson_bounds(right: float, cases: float, z: float) -> tuple[float, float]:
    """The same for a quantile of the normal distribution: each bound alone holds with probability Phi(z)."""
    if not 0 <= right <= cases:
        raise ValueError(f"{right} of {cases} cases")
    if not cases:
        return 0.0, 1.0
    share, z2 = right / cases, z * z
    middle = (share + z2 / (2 * cases)) / (1 + z2 / cases)
    half = z / (1 + z2 / cases) * math.sqrt(share * (1 - share) / cases + z2 / (4 * cases * cases))
    # At 0 and 1 rounding would leave the range.
    return (0.0 if right == 0 else max(0.0, middle - half)), (1.0 if right == cases else min(1.0, middle + half))
