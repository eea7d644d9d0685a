"""Tally: errors and divergences of one layer, summed as texts come."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from chipwise.verify.attribution.split_graph import Values
from chipwise.verify.metrics import drift

Logits = npt.NDArray[np.float32]


@dataclass
class Divergence:
    """Mean divergence of next tokens from the reference's; infinite as soon as a position is not finite."""

    total_nats: float = 0.0
    positions: int = 0

    def add(self, reference: Logits, found: Logits) -> None:
        """Add logits ``[rows, vocab]`` of the same positions."""
        kl = drift(reference, found, np.zeros(len(reference), np.int64)).kl_nats
        self.total_nats += float(np.where(np.isnan(kl), np.inf, kl).sum())
        self.positions += len(kl)

    @property
    def mean_nats(self) -> float:
        """The mean; 0 of no position."""
        return self.total_nats / self.positions if self.positions else 0.0


@dataclass
class ErrorSums:
    """Squares of differences between runs of the same values."""

    own: float = 0.0
    inherited: float = 0.0
    reference: float = 0.0

    def add(self, names: Sequence[str], reference: Values, alone: Values, candidate: Values) -> None:
        """Add some values of the reference, of the candidate's layer on its activations, and on the candidate's own."""
        for name in names:
            if name not in reference:
                continue
            r, a, c = (np.asarray(values[name], np.float64) for values in (reference, alone, candidate))
            with np.errstate(invalid="ignore", over="ignore"):
                self.reference += float(np.square(r).sum())
                self.own += _finite_or_inf(float(np.square(a - r).sum()))
                self.inherited += _finite_or_inf(float(np.square(c - a).sum()))

    def relative(self, square: float) -> float:
        """The relative error that a sum of squares is."""
        if square == 0:
            return 0.0
        return math.sqrt(square / self.reference) if self.reference else math.inf


@dataclass
class PhaseTally:
    """One layer in one phase."""

    errors: ErrorSums = field(default_factory=ErrorSums)
    alone: Divergence = field(default_factory=Divergence)
    without: Divergence = field(default_factory=Divergence)


def _finite_or_inf(square: float) -> float:
    return square if math.isfinite(square) else math.inf
