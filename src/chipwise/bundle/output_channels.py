"""Channels of an output: which axis they lie on, and whether each still follows what it was."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

_IMAGE_RANK = 4
# Shares of a tolerance, which for integers is 0.05: about ten steps of an 8-bit output. Chosen, not measured on a
# board.
_STEP = 0.2
_GAIN = 10.0
_GAIN_MOST = 0.5
_DEAD = 0.4
# One value may be rounded to 0; that as many all are is no rounding.
_DEAD_VALUES = 4


@dataclass(frozen=True)
class ChannelFault:
    """A channel that does not follow.

    Attributes:
        channel: Its index on the output's axis of channels.
        dead: Whether every value of it is 0, though expected otherwise.
        gain: By what factor it follows what was expected (least squares).
        largest: The largest magnitude expected in it.
    """

    channel: int
    dead: bool
    gain: float
    largest: float

    def __str__(self) -> str:
        """The fault in words, after ``channel N of the output``."""
        if self.dead:
            return f"is all zeros, up to {self.largest:.3g} was expected"
        return f"follows what was expected by a factor of {self.gain:.2g}"


def channels_last(value: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """An output with its channels on the last axis: images have them on axis 1, all else has them there."""
    if value.ndim >= _IMAGE_RANK:
        return np.moveaxis(value, 1, -1)
    return value.reshape(1, 1) if value.ndim == 0 else value


def channel_faults(expected: npt.NDArray[Any], found: npt.NDArray[Any], *, tolerance: float) -> Iterator[ChannelFault]:
    """The channels of an output that do not follow, dead ones first, each kind in order.

    A channel ``e`` that came out as ``f`` is at fault

    1. if it is dead: ``f`` is 0 throughout, though at least 4 values of ``e`` are not, the largest passes a fifth of
       the tolerance, and the length of ``e`` as a vector passes two fifths of it;
    2. if its gain is wrong: along ``e``, the error is longer than a tenfold tolerance (at most half) of ``e``, one
       tolerance of noise, and a fifth of a tolerance by which all its values may be off alike.

    What is below these is rounding: it cannot be told from a fault.

    Args:
        expected: Values of any shape.
        found: Finite values of the same shape.
        tolerance: A share of the output's largest magnitude: the noise of one value.
    """
    one, other = channels_last(expected), channels_last(found)
    e = one.reshape(-1, one.shape[-1]).astype(np.float64)
    f = other.reshape(e.shape).astype(np.float64)
    if not e.size:
        return
    noise = tolerance * float(np.abs(e).max())
    length, largest = np.linalg.norm(e, axis=0), np.abs(e).max(axis=0)
    dead = ~f.any(axis=0) & (np.count_nonzero(e, axis=0) >= _DEAD_VALUES)
    dead &= (largest > _STEP * noise) & (length > _DEAD * noise)
    along = np.einsum("vc,vc->c", e, f - e) / np.where(length > 0, length, 1.0)
    allowed = noise * (1.0 + _STEP * np.sqrt(len(e))) + min(_GAIN_MOST, _GAIN * tolerance) * length
    wrong = (np.abs(along) > allowed) & ~dead
    for is_dead, channels in ((True, np.flatnonzero(dead)), (False, np.flatnonzero(wrong))):
        for channel in channels:
            gain = 1.0 + float(along[channel] / length[channel])
            yield ChannelFault(int(channel), is_dead, gain, float(largest[channel]))
