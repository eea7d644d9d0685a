"""Rung: one step of the ladder that serving climbs when a board is too warm or draws too much."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from chipwise.bundle import Bundle
from chipwise.bundle.quality_cost import quality_cost
from chipwise.serve.request.limits import Limits
from chipwise.serve.request.priority import Priority

_NO_LIMITS = Limits()


@dataclass(frozen=True)
class Variant:
    """A cooler or smaller form of the model.

    Attributes:
        name: Its name in the bundle.
        quality_cost: What it loses against the unquantized model, as it was measured, in words.
    """

    name: str
    quality_cost: str


@dataclass(frozen=True)
class Rung:
    """What holds on one rung. Each rung includes all below it.

    Attributes:
        name: What it adds, in words.
        limits: What the scheduler may do.
        clock_ratio: The highest clock over the highest of all; None for no cap.
        variant: The form of the model that answers; None for the first.
    """

    name: str
    limits: Limits = _NO_LIMITS
    clock_ratio: float | None = None
    variant: Variant | None = None

    @property
    def costs_requests(self) -> bool:
        """Whether requests are turned away."""
        return bool(self.limits.shed)


def variants_of(bundle: Bundle) -> tuple[Variant, ...]:
    """The other forms in a bundle, in the order in which a ladder takes them: those that lose least first."""
    costs = {name: quality_cost(form.manifest.verdicts) for name, form in bundle.variants.items()}
    ordered = sorted(costs, key=lambda name: math.inf if (cost := costs[name]) is None else cost.kl_mean_nats)
    return tuple(Variant(name, str(costs[name] or "quality not measured")) for name in ordered)


# EMERGENCY is in none of them.
_SHED = (
    ("no background work", frozenset({Priority.BACKGROUND})),
    ("no background and normal work", frozenset({Priority.BACKGROUND, Priority.NORMAL})),
    ("emergencies only", frozenset({Priority.BACKGROUND, Priority.NORMAL, Priority.INTERACTIVE})),
)


def ladder(max_batch: int, clock_ratios: Sequence[float] = (), variants: Sequence[Variant] = ()) -> tuple[Rung, ...]:
    """The rungs in the order in which they are taken: what costs least first.

    Smaller batches, down to two (to one, of two); lower clocks; cooler variants; then work is shed, the least urgent
    first.

    Args:
        max_batch: Requests that run at once when nothing is wrong, at least 1.
        clock_ratios: Clocks that may be set, over the highest; none where the clock may not be touched. The lowest must
            still keep the latency that emergencies need.
        variants: Other forms of the model, the least costly first.
    """
    rungs = [Rung("as asked")]
    batch = max_batch
    # Two share one reading of the weights: one at a time is hardly cooler and half as fast.
    least = 1 if max_batch <= 2 else 2
    while batch > least:
        batch = max(least, batch // 2)
        rungs.append(Rung(f"at most {batch} at once", Limits(batch)))
    limits = rungs[-1].limits
    capped = [ratio for ratio in sorted(set(clock_ratios), reverse=True) if 0 < ratio < 1]
    rungs += [Rung(f"clock at {ratio:.0%}", limits, ratio) for ratio in capped]
    ratio = capped[-1] if capped else None
    rungs += [Rung(f"variant {one.name}", limits, ratio, one) for one in variants]
    variant = variants[-1] if variants else None
    rungs += [Rung(name, Limits(limits.max_batch, shed), ratio, variant) for name, shed in _SHED]
    return tuple(rungs)
