"""Cosine a channel: where a tensor is damaged, which the cosine of the whole tensor hides."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from chipwise.report.report import LayerCosine

# Energy of a channel, over the mean of all, below which nobody reads it: a 1e-5th of a typical magnitude.
_SILENT = 1e-10


class ChannelCosine:
    """Cosines of two runs of one value, summed over tokens as they come: nothing of a sample is kept."""

    def __init__(self, channels: int) -> None:
        self._dot = np.zeros(channels)
        self._reference = np.zeros(channels)
        self._candidate = np.zeros(channels)

    def add(self, reference: npt.NDArray[np.floating], candidate: npt.NDArray[np.floating]) -> None:
        """Add some tokens.

        Args:
            reference: Values ``[..., channels]``.
            candidate: Values of the same shape.
        """
        r = reference.reshape(-1, len(self._dot)).astype(np.float64)
        c = candidate.reshape(-1, len(self._dot)).astype(np.float64)
        # A candidate that overflowed is a result (its cosine is NaN), not a fault of this sum.
        with np.errstate(invalid="ignore", over="ignore"):
            self._dot += np.einsum("tc,tc->c", r, c)
            self._reference += np.einsum("tc,tc->c", r, r)
            self._candidate += np.einsum("tc,tc->c", c, c)

    def channels(self) -> npt.NDArray[np.float64]:
        """Cosine of each channel's values over all tokens, ``[channels]``.

        1.0 where both are as good as zero throughout, 0.0 where one is, NaN where one is not finite.
        """
        cosine = _cosine(self._dot, self._reference, self._candidate)
        # A dead channel holds rounding errors, whose direction means nothing.
        silent = np.maximum(self._reference, self._candidate) <= _SILENT * self._reference.mean()
        return np.where(silent, 1.0, cosine)

    def whole(self) -> float:
        """Cosine of all values taken as one vector."""
        return float(_cosine(self._dot.sum(), self._reference.sum(), self._candidate.sum()))

    def gain(self) -> float:
        """By what factor the candidate's values follow the reference's, of all taken as one vector (least squares).

        A cosine is blind to it: a candidate of half of every value has cosine 1. 1.0 where both are zero throughout.
        """
        reference, dot = float(self._reference.sum()), float(self._dot.sum())
        if reference:
            return dot / reference
        return 1.0 if not self._candidate.sum() else float("inf")

    def result(self, name: str) -> LayerCosine:
        """The line of a report. A channel that is not finite makes mean and min NaN and is the worst."""
        channels = self.channels()
        worst = int(np.argmin(np.where(np.isnan(channels), -np.inf, channels)))
        return LayerCosine(name, float(channels.mean()), float(channels[worst]), self.whole(), worst)


def _cosine(dot: npt.ArrayLike, reference: npt.ArrayLike, candidate: npt.ArrayLike) -> npt.NDArray[np.float64]:
    # Norms are multiplied after the root: the product of two squares may overflow or vanish.
    norm = np.sqrt(np.asarray(reference)) * np.sqrt(np.asarray(candidate))
    both_zero = (np.asarray(reference) == 0) & (np.asarray(candidate) == 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        cosine = np.where(norm == 0, np.where(both_zero, 1.0, 0.0), np.asarray(dot) / norm)
    return np.clip(cosine, -1.0, 1.0)
