"""Blockwise weight quantization: one scale (and zero_point) for every group of neighbours along the input axis."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

# Fractions of the full range tried for each group; the one with the least squared error wins. Clipping the
# outermost value buys finer steps for all others (the idea of GPTQ's and llama.cpp's scale searches).
SHRINK_STEPS = (1.0, 0.92, 0.85, 0.78)
_ROWS_AT_ONCE_BYTES = 32 << 20


@dataclass(frozen=True)
class BlockwiseWeight:
    """A quantized matrix in the layout of ``MatMulNBits``: value = (q - zero_point) * scale.

    Attributes:
        packed: uint8 ``[rows, groups, group_size * bits / 8]``; 4-bit values two a byte, the lower index in
            the low half.
        scales: float32 ``[rows, groups]``.
        zero_points: uint8 ``[rows, ceil(groups * bits / 8)]``, packed like the values; None if symmetric.
        bits: 4 or 8.
        group_size: Values a group.
        columns: Columns of the matrix before it was padded to whole groups.
    """

    packed: npt.NDArray[np.uint8]
    scales: npt.NDArray[np.float32]
    zero_points: npt.NDArray[np.uint8] | None
    bits: int
    group_size: int
    columns: int

    def dequantize(self) -> npt.NDArray[np.float32]:
        """The matrix the runtime computes with, float32 ``[rows, columns]``."""
        rows, groups = self.scales.shape
        values = unpack(self.packed, self.bits).reshape(rows, groups, self.group_size).astype(np.float32)
        if self.zero_points is None:
            zeros = np.full((rows, groups), 1 << (self.bits - 1), np.float32)
        else:
            zeros = unpack(self.zero_points, self.bits)[:, :groups].astype(np.float32)
        dense = (values - zeros[..., None]) * self.scales[..., None]
        return dense.reshape(rows, -1)[:, : self.columns]


def quantize_blockwise(
    matrix: npt.NDArray[np.float32], *, bits: int, group_size: int, symmetric: bool, searched: bool = True
) -> BlockwiseWeight:
    """Quantize a matrix ``[rows, columns]`` group by group.

    Args:
        matrix: The weights, output channels first.
        bits: 4 or 8.
        group_size: Values a group, a power of two from 16 on.
        symmetric: Whether zero is the middle of the range; otherwise each group has a zero_point of its own.
        searched: Whether each group's scale is searched for the least error; otherwise the largest magnitude of a
            group sits on the last positive step or on as many negative ones, as rknn-toolkit2 2.5.0 was seen to do.
            Needs ``symmetric``.

    Raises:
        ValueError: Neither searched nor symmetric.
    """
    if not (searched or symmetric):
        raise ValueError("only symmetric groups go without a search")
    rows, columns = matrix.shape
    groups = -(-columns // group_size)
    scales = np.empty((rows, groups), np.float32)
    zeros = np.empty((rows, groups), np.uint8)
    packed = np.empty((rows, groups, group_size * bits // 8), np.uint8)
    step = max(1, _ROWS_AT_ONCE_BYTES // (groups * group_size * 4))
    for start in range(0, rows, step):
        part = slice(start, start + step)
        block = np.ascontiguousarray(matrix[part], dtype=np.float32)
        if groups * group_size != columns:
            block = np.pad(block, ((0, 0), (0, groups * group_size - columns)))
        block = block.reshape(-1, groups, group_size)
        found = search_groups(block, bits, symmetric) if searched else _largest_magnitude(block, bits)
        q, scales[part], zeros[part] = found
        packed[part] = pack(q, bits)
    return BlockwiseWeight(packed, scales, None if symmetric else pack(zeros, bits), bits, group_size, columns)


def search_groups(
    block: npt.NDArray[np.float32],
    bits: int,
    symmetric: bool,
    importance: npt.NDArray[np.float32] | None = None,
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float32], npt.NDArray[np.uint8]]:
    """Stored values, scales and zero_points of groups ``[rows, groups, group_size]``, by least squared error.

    Args:
        block: The weights.
        bits: 4 or 8.
        symmetric: Whether zero is the middle of the range.
        importance: What an error of each value counts, ``[groups, group_size]``; None counts all the same.
    """
    best_error = np.full(block.shape[:2], np.inf, np.float32)
    best_scale = np.ones(block.shape[:2], np.float32)
    best_zero = np.zeros(block.shape[:2], np.uint8)
    # 8 bits leave nothing to gain: the full range is a 255th a step.
    for shrink in SHRINK_STEPS if bits < 8 else (1.0,):
        scale, zero = _scale_and_zero(block, bits, symmetric, shrink)
        q = _round(block, scale, zero, bits)
        q -= zero[..., None]
        q *= scale[..., None]
        q -= block
        np.square(q, out=q)
        error = q.sum(axis=2) if importance is None else np.einsum("rgk,gk->rg", q, importance)
        better = error < best_error
        best_error[better] = error[better]
        best_scale[better] = scale[better]
        best_zero[better] = zero[better].astype(np.uint8)
    q = _round(block, best_scale, best_zero.astype(np.float32), bits)
    return q.astype(np.uint8), best_scale, best_zero


def _largest_magnitude(
    block: npt.NDArray[np.float32], bits: int
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float32], npt.NDArray[np.uint8]]:
    half = 1 << (bits - 1)
    scale = np.abs(block).max(axis=2) / np.float32(half - 1)
    scale = np.where(scale == 0, np.float32(1), scale).astype(np.float32)
    zero = np.full(scale.shape, half, np.uint8)
    return _round(block, scale, zero.astype(np.float32), bits).astype(np.uint8), scale, zero


def _scale_and_zero(
    block: npt.NDArray[np.float32], bits: int, symmetric: bool, shrink: float
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    top = (1 << bits) - 1
    if symmetric:
        half = 1 << (bits - 1)
        # The value of largest magnitude sits on the longer, negative side of the range (as in Q4_0).
        index = np.abs(block).argmax(axis=2, keepdims=True)
        extreme = np.take_along_axis(block, index, axis=2)[..., 0]
        scale = extreme * shrink / -half
        zero = np.full_like(scale, half)
    else:
        low = np.minimum(block.min(axis=2), 0) * shrink
        high = np.maximum(block.max(axis=2), 0) * shrink
        scale = (high - low) / top
        zero = np.rint(-low / np.where(scale == 0, 1, scale))
    # A group of zeros gets scale one: zero over zero is no number.
    return np.where(scale == 0, np.float32(1), scale).astype(np.float32), np.clip(zero, 0, top)


def _round(
    block: npt.NDArray[np.float32], scale: npt.NDArray[np.float32], zero: npt.NDArray[np.float32], bits: int
) -> npt.NDArray[np.float32]:
    q = block / scale[..., None]
    np.rint(q, out=q)
    q += zero[..., None]
    return np.clip(q, 0, (1 << bits) - 1, out=q)


def pack(values: npt.NDArray[np.uint8], bits: int) -> npt.NDArray[np.uint8]:
    """4-bit values two a byte along the last axis, the lower index in the low half; 8-bit values as they are."""
    if bits == 8:
        return values
    if values.shape[-1] % 2:
        values = np.concatenate([values, np.zeros((*values.shape[:-1], 1), np.uint8)], axis=-1)
    packed: npt.NDArray[np.uint8] = values[..., 0::2] | (values[..., 1::2] << np.uint8(4))
    return packed


def unpack(packed: npt.NDArray[np.uint8], bits: int) -> npt.NDArray[np.uint8]:
    """What ``pack`` packed; an odd number of values comes back with one more."""
    if bits == 8:
        return packed
    return np.stack([packed & 15, packed >> 4], axis=-1).reshape(*packed.shape[:-1], -1)
