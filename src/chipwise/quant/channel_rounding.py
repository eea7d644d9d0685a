"""Channel rounding: weights moved onto the 8-bit grid that a chip's toolkit will choose, by GPTQ, before it sees them.

A toolkit rounds each weight to the nearest step. Rounded beforehand, so that later columns make up for the error of
earlier ones, the weights lie on its grid already, and it changes nothing more. The grid is that of rknn-toolkit2 2.5.0,
measured: a scale an output channel, 255 steps from the least weight (or 0) to the greatest (or 0).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from chipwise.quant.gptq import inverse_cholesky

Float32Array = npt.NDArray[np.float32]

_BLOCK = 128
_LOW, _HIGH = -128, 127


@dataclass(frozen=True)
class ChannelWeight:
    """A matrix in 8 bits with a scale and zero_point an output channel.

    Attributes:
        values: int8 ``[rows, columns]``.
        scale: float32 ``[rows]``.
        zero_point: int32 ``[rows]``.
    """

    values: npt.NDArray[np.int8]
    scale: Float32Array
    zero_point: npt.NDArray[np.int32]

    def dense(self) -> Float32Array:
        """The matrix in float32, ``[rows, columns]``."""
        moved = self.values.astype(np.int32) - self.zero_point[:, None]
        return moved.astype(np.float32) * self.scale[:, None]


def round_channels(matrix: Float32Array, hessian: Float32Array | None) -> ChannelWeight:
    """Round a matrix so that its product with typical inputs changes least.

    The ends of each row stay on the ends of its grid, or the toolkit would choose another.

    Args:
        matrix: The weights ``[rows, columns]``, output channels first.
        hessian: Sum of ``x x^T`` over inputs of this layer, ``[columns, columns]``; None rounds to nearest.
    """
    weights = np.array(matrix, np.float32)
    low, high = np.minimum(weights.min(1), 0), np.maximum(weights.max(1), 0)
    # Divided first, for the ends may be further apart than float32 can tell.
    scale = (high / 255 - low / 255).astype(np.float32)
    if (dead := scale < np.finfo(np.float32).tiny).any():
        weights[dead], low[dead], high[dead], scale[dead] = 0, 0, 0, 1
    zero = np.clip(np.rint(_LOW - low / scale), _LOW, _HIGH).astype(np.int32)
    first, last = weights.argmin(1), weights.argmax(1)
    rows, columns = weights.shape
    stored = np.empty((rows, columns), np.int8)
    upper = None if hessian is None else inverse_cholesky(hessian)
    for start in range(0, columns, _BLOCK):
        stop = min(start + _BLOCK, columns)
        # Columns as rows: each step below reads and writes whole contiguous lines.
        block = np.ascontiguousarray(weights[:, start:stop].T)
        errors = np.empty_like(block)
        for i, column in enumerate(block):
            place = start + i
            q = np.clip(np.rint(column / scale) + zero, _LOW, _HIGH)
            q = np.where((first == place) & (low < 0), _LOW, np.where((last == place) & (high > 0), _HIGH, q))
            stored[:, place] = q
            if upper is None:
                continue
            error = (column - (q - zero) * scale) / upper[place, place]
            block[i + 1 :] -= upper[place, place + 1 : stop, None] * error
            errors[i] = error
        if upper is not None:
            weights[:, stop:] -= errors.T @ upper[start:stop, stop:]
    return ChannelWeight(stored, scale, zero)
