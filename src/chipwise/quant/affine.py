"""Affine: the step and the zero of an 8-bit integer scale."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

# Smaller steps are lost in float32 arithmetic, and a bias over them overflows int32.
_SMALLEST_STEP = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True)
class Affine:
    """One scale for a whole tensor: value = (q - zero_point) * scale.

    Attributes:
        scale: The step.
        zero_point: The integer that stands for zero.
        signed: Whether the integers are int8; otherwise uint8.
    """

    scale: np.float32
    zero_point: int
    signed: bool = True

    @property
    def dtype(self) -> type[np.int8] | type[np.uint8]:
        """Type of the integers."""
        return np.int8 if self.signed else np.uint8

    def round_trip(self, values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """What remains of values, as QuantizeLinear and DequantizeLinear compute it (ties to even)."""
        info = np.iinfo(self.dtype)
        q = np.clip(np.rint(values / self.scale) + self.zero_point, info.min, info.max)
        dense: npt.NDArray[np.float32] = ((q - self.zero_point) * self.scale).astype(np.float32)
        return dense


def affine(low: float, high: float, *, signed: bool = True) -> Affine:
    """The scale whose 256 integers span from ``low`` to ``high``, with zero among the values it hits exactly.

    A padding of zeros, a mask of zeros and a ReLU must come back as zeros.
    """
    low, high = min(low, 0.0), max(high, 0.0)
    bottom = -128 if signed else 0
    step = (high - low) / 255
    if step < _SMALLEST_STEP:
        return Affine(np.float32(1), 0 if signed else 128, signed)
    scale = np.float32(step)
    return Affine(scale, int(np.clip(round(bottom - low / float(scale)), bottom, bottom + 255)), signed)
