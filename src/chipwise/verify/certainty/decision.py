"""Decision: whether cases show that a limit holds, that it does not, or neither, and how many more it would take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

from chipwise.verify.certainty.mcnemar import worse
from chipwise.verify.certainty.paired import not_worse
from chipwise.verify.certainty.wilson import wilson_bounds

MOST_CASES = 100_000
"""A suite with more is nobody's; a number beyond is not named."""


@dataclass(frozen=True)
class Decision:
    """What cases say of a limit.

    Attributes:
        sure: Whether they are enough to say whether it holds.
        more_cases: How many more would be needed if they went like these; None if it is sure, or if no number would do.
    """

    sure: bool
    more_cases: int | None = None


def decide_share(right: int, cases: int, least: float, alpha: float) -> Decision:
    """Whether a share is surely at least, or surely below, what is asked.

    By Wilson's one-sided bounds. Asked for nothing, or for all, the measured share itself decides.

    Args:
        right: Cases that are right.
        cases: All cases.
        least: The share asked for.
        alpha: The chance to be wrong that is borne; 1 or more lets the measured value decide.
    """
    if alpha >= 0.5 or least <= 0 or least >= 1:
        return Decision(sure=True)
    z = NormalDist().inv_cdf(1 - alpha)

    def sure(n: int) -> bool:
        low, high = wilson_bounds(min(right * n / cases, n), n, z)
        return low >= least if right >= least * cases else high < least

    return _decision(cases, sure)


def decide_loss(broke: int, fixed: int, cases: int, most: float, alpha: float, *, fail_alpha: float) -> Decision:
    """Whether a loss is surely below what is allowed, or is above it and surely no accident.

    A loss within the limit is sure by Tango's score test against the limit; one beyond it by McNemar's test that there
    is a loss at all. Where none is allowed, the measured loss decides.

    Args:
        broke: Cases the reference had right and the candidate has not.
        fixed: The other way round.
        cases: All cases.
        most: The loss allowed.
        alpha: The chance to pass wrongly that is borne; 0.5 or more lets the measured value decide.
        fail_alpha: The chance to fail wrongly that is borne, after what several tests at once ask.
    """
    if alpha >= 0.5 or most <= 0 or most >= 1:
        return Decision(sure=True)
    within = broke - fixed <= most * cases

    def sure(n: int) -> bool:
        scale = n / cases
        if within:
            return not_worse(broke * scale, fixed * scale, n, most) <= alpha
        return worse(round(broke * scale), round(fixed * scale)) <= fail_alpha

    return _decision(cases, sure)


def _decision(cases: int, sure: Callable[[int], bool]) -> Decision:
    if not cases:
        return Decision(sure=False)
    if sure(cases):
        return Decision(sure=True)
    if not sure(MOST_CASES):
        return Decision(sure=False)
    low, high = cases, MOST_CASES
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if sure(middle) else (middle, high)
    return Decision(sure=False, more_cases=high - cases)
