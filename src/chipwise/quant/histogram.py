"""Histogram: how often which values occurred, in a memory that does not grow with what was seen."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

BINS = 4096
# Ends tried on each side, from the last value seen towards zero.
_ENDS = 25


class Histogram:
    """Counts in equal bins from ``-limit`` to ``limit``; when a value lies beyond, the limit doubles and bins merge.

    After that a bin is at most a 1024th of the largest magnitude seen wide, whatever was seen first.

    Attributes:
        limit: The end of the last bin; 0 before anything but zeros was seen.
        counts: Values a bin, int64 ``[BINS]``.
    """

    def __init__(self) -> None:
        self.limit = 0.0
        self.counts = np.zeros(BINS, np.int64)
        self._zeros = 0

    def add(self, values: npt.NDArray[np.floating]) -> None:
        """Count finite values of any shape."""
        flat = values.reshape(-1).astype(np.float64)
        largest = float(np.abs(flat).max(initial=0.0))
        if largest == 0.0:
            self._zeros += flat.size
            return
        if self.limit == 0.0:
            self.limit = float(2.0 ** np.ceil(np.log2(largest)))
        while largest > self.limit:
            self._widen()
        index = ((flat + self.limit) * (BINS / 2 / self.limit)).astype(np.int64)
        self.counts += np.bincount(np.minimum(index, BINS - 1), minlength=BINS)

    def span(self, share: float) -> tuple[float, float]:
        """The lowest and the highest value when the rarest ``1 - share`` of the values are left out.

        The share left out is taken from both ends alike. Exact to the width of a bin.
        """
        counts = self.counts.copy()
        if self.limit == 0.0:
            return 0.0, 0.0
        counts[BINS // 2] += self._zeros
        total, left_out = counts.sum(), (1 - share) / 2
        up = np.cumsum(counts)
        first = int(np.searchsorted(up, left_out * total, side="right"))
        last = int(np.searchsorted(up, (1 - left_out) * total, side="left"))
        width = 2 * self.limit / BINS
        return -self.limit + first * width, -self.limit + (min(last, BINS - 1) + 1) * width

    def least_error(self, low: float, high: float) -> tuple[float, float]:
        """The ends of 256 equal steps that lose least of what was seen, by squared error.

        What lies beyond is clipped; what lies between is rounded, which costs a twelfth of a squared step.

        Args:
            low: The smallest value seen.
            high: The largest.
        """
        if self.limit == 0.0:
            return low, high
        width = 2 * self.limit / BINS
        middles = np.clip(-self.limit + (np.arange(BINS) + 0.5) * width, low, high)
        # Sums up to each bin, so that a pair of ends costs a few subtractions.
        counts = np.concatenate([[0.0], np.cumsum(self.counts)])
        sums = np.concatenate([[0.0], np.cumsum(self.counts * middles)])
        squares = np.concatenate([[0.0], np.cumsum(self.counts * middles**2)])
        best, ends = np.inf, (low, high)
        for bottom in np.linspace(min(low, 0.0), 0.0, _ENDS, endpoint=False) if low < 0 else [0.0]:
            for top in np.linspace(max(high, 0.0), 0.0, _ENDS, endpoint=False) if high > 0 else [0.0]:
                first, last = (int(np.searchsorted(middles, end)) for end in (bottom, top))
                below = squares[first] - 2 * bottom * sums[first] + bottom**2 * counts[first]
                above = squares[-1] - squares[last] - 2 * top * (sums[-1] - sums[last])
                above += top**2 * (counts[-1] - counts[last])
                inside = (counts[last] - counts[first]) * ((top - bottom) / 255) ** 2 / 12
                if below + above + inside < best:
                    best, ends = below + above + inside, (float(bottom), float(top))
        return ends

    def _widen(self) -> None:
        pairs = self.counts.reshape(-1, 2).sum(axis=1)
        self.counts = np.zeros(BINS, np.int64)
        self.counts[BINS // 4 : BINS // 4 + BINS // 2] = pairs
        self.limit *= 2
