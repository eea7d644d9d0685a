"""The loss between two answers to the same cases, with its score interval: Tango, Statist. Med. 17 (1998) 891."""

from __future__ import annotations

import math
from statistics import NormalDist

_HALVINGS = 60


def loss_interval(broke: float, fixed: float, cases: float, confidence: float = 0.95) -> tuple[float, float]:
    """The interval of the true loss (share broken less share fixed), two-sided. Right where nothing broke, too.

    Args:
        broke: Cases right before and wrong after.
        fixed: Cases wrong before and right after.
        cases: All cases; of none nothing is known, which is the interval from -1 to 1.
        confidence: Between 0 and 1, exclusive.

    Raises:
        ValueError: The counts are not those of some cases.
    """
    _check(broke, fixed, cases)
    if not cases:
        return -1.0, 1.0
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    loss = (broke - fixed) / cases
    # The statistic falls as the loss assumed grows.
    return _where(broke, fixed, cases, z, -1.0, loss), _where(broke, fixed, cases, -z, loss, 1.0)


def not_worse(broke: float, fixed: float, cases: float, margin: float) -> float:
    """The p-value of a loss as small as this if the true one were ``margin``: small if less was surely lost.

    Args:
        broke: Cases right before and wrong after.
        fixed: Cases wrong before and right after.
        cases: All cases.
        margin: The loss that is not to be reached, above 0 and below 1.

    Raises:
        ValueError: The counts are not those of some cases.
    """
    _check(broke, fixed, cases)
    return NormalDist().cdf(_statistic(broke, fixed, cases, margin)) if cases else 1.0


def _check(broke: float, fixed: float, cases: float) -> None:
    if min(broke, fixed) < 0 or broke + fixed > cases * (1 + 1e-12):
        raise ValueError(f"{broke} broke and {fixed} fixed of {cases} cases")


def _statistic(broke: float, fixed: float, cases: float, loss: float) -> float:
    """Standard deviations by which the loss seen lies above a loss assumed (Tango's equation 8)."""
    b = -broke - fixed + (2 * cases - broke + fixed) * loss
    c = -fixed * loss * (1 - loss)
    q = (math.sqrt(max(0.0, b * b - 8 * cases * c)) - b) / (4 * cases)
    variance = cases * (2 * q + loss * (1 - loss))
    above = broke - fixed - cases * loss
    if variance <= 0:
        return 0.0 if above == 0 else math.copysign(math.inf, above)
    return above / math.sqrt(variance)


def _where(broke: float, fixed: float, cases: float, z: float, low: float, high: float) -> float:
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if _statistic(broke, fixed, cases, middle) > z:
            low = middle
        else:
            high = middle
    return (low + high) / 2
