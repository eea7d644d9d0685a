"""Channel rounding: weights moved onto the grid that a chip's toolkit will choose, by GPTQ, before it sees them.

A toolkit rounds each weight to the nearest step. Rounded beforehand, so that later columns make up for the error of
earlier ones, the weights lie on its grid already, and it changes nothing more. The grids are those of rknn-toolkit2
2.5.0, measured:

- 8 bits: a scale an output channel, 255 steps from the least weight (or 0) to the greatest (or 0).
- 4 bits in groups: a scale for each run of weights along the input, 14 steps from minus the largest magnitude to plus
  that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from chipwise.quant.gptq import inverse_cholesky

Float32Array = npt.NDArray[np.float32]

_BLOCK = 128
_LOW, _HIGH = -128, 127
_FOUR_BITS = 7


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


@dataclass(frozen=True)
class GroupWeight:
    """A matrix in 4 bits with a scale a group of inputs and an output channel, and zero in the middle.

    Attributes:
        values: int8 ``[rows, columns]``, from -7 to 7.
        scale: float32 ``[rows, groups]``.
    """

    values: npt.NDArray[np.int8]
    scale: Float32Array

    def dense(self) -> Float32Array:
        """The matrix in float32, ``[rows, columns]``."""
        rows, columns = self.values.shape
        grouped = self.values.reshape(rows, self.scale.shape[1], -1).astype(np.float32)
        dense: Float32Array = (grouped * self.scale[:, :, None]).reshape(rows, columns)
        return dense


def round_groups(matrix: Float32Array, hessian: Float32Array | None, group_size: int) -> GroupWeight:
    """Round a matrix to 4 bits in groups so that its product with typical inputs changes least.

    A group's scale is set by its weights as the groups before it left them, and its largest weight stays on the end.

    Args:
        matrix: The weights ``[rows, columns]``, output channels first; columns a multiple of ``group_size``.
        hessian: As for ``round_channels``.
        group_size: Columns a group.
    """
    weights = np.array(matrix, np.float32)
    rows, columns = weights.shape
    stored = np.empty((rows, columns), np.int8)
    scales = np.empty((rows, columns // group_size), np.float32)
    upper = None if hessian is None else inverse_cholesky(hessian)
    for group, start in enumerate(range(0, columns, group_size)):
        stop = start + group_size
        block = np.ascontiguousarray(weights[:, start:stop].T)
        magnitude = np.abs(block)
        scale = scales[:, group] = np.maximum(magnitude.max(0) / _FOUR_BITS, np.finfo(np.float32).tiny)
        largest = magnitude.argmax(0)
        end = np.sign(block[largest, np.arange(rows)]) * _FOUR_BITS
        errors = np.zeros_like(block)
        for i, column in enumerate(block):
            q = np.clip(np.rint(column / scale), -_FOUR_BITS, _FOUR_BITS)
            q = np.where(largest == i, end, q)
            stored[:, start + i] = q
            if upper is None:
                continue
            errors[i] = (column - q * scale) / upper[start + i, start + i]
            block[i + 1 :] -= upper[start + i, start + i + 1 : stop, None] * errors[i]
        if upper is not None:
            weights[:, stop:] -= errors.T @ upper[start:stop, stop:]
    return GroupWeight(stored, scales)


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
