"""Holm's correction of several tests at once: Holm, Scand. J. Statist. 6 (1979) 65."""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> list[float]:
    """The adjusted p-values, in the order given: rejecting those at most alpha is wrong of any that rarely.

    The smallest is multiplied by their number, the next by one less, and none becomes smaller than one before it.
    """
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted, reached = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        reached = max(reached, min(1.0, (len(order) - rank) * p_values[i]))
        adjusted[i] = reached
    return adjusted
