"""StoredGrid: weights that already lie on 16 evenly spaced values a group, and how they are kept there.

Files such as GGUF's Q4_0, Q4_1 and Q4_K, and checkpoints trained for 4 bits, hold weights ``low + code * scale`` in
groups of 32. Quantizing those a second time adds a second error as large as the first; kept as they are they add none.
``low`` is a real number there, while the kernel's zero_point is a whole one. What a zero_point cannot hold, at most
half a step that all values of a group share, becomes a ``rest`` to be multiplied with the sum of the group's inputs.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from chipwise.quant.blockwise import BlockwiseWeight, pack, search_groups

GROUP_SIZE = 32
"""Values a group in all formats that are kept."""

GridKind = Literal["whole", "real"]

_TOP = 15
# Share of a step by which a value may lie off its place: bfloat16 rounds values of a grid by up to a 30th of a step.
_TOLERANCE = 0.05
_SAMPLED_ROWS = 256
_ROWS_AT_ONCE_BYTES = 32 << 20


class StoredGrid(NamedTuple):
    """What a matrix says of its groups ``[rows, groups]``.

    Attributes:
        low: The value of code 0.
        scale: The step; 1 where all values of a group are the same.
        fits: Whether the group lies on a grid of at most 16 values.
    """

    low: npt.NDArray[np.float32]
    scale: npt.NDArray[np.float32]
    fits: npt.NDArray[np.bool_]


def find_grid(groups: npt.NDArray[np.float32]) -> StoredGrid:
    """The grid that each group of values ``[rows, groups, size]`` lies on."""
    ordered = np.sort(groups, axis=-1)
    low = ordered[..., 0]
    span = ordered[..., -1] - low
    # No step is smaller than a 15th of the span; smaller gaps are rounding.
    gaps = np.diff(ordered, axis=-1)
    gaps[gaps < 0.3 / _TOP * span[..., None]] = np.inf
    flat = span == 0
    smallest = np.where(flat, 1, gaps.min(axis=-1))
    steps = np.where(flat, 1, np.rint(span / smallest))
    scale, fits = _fit(groups, low, span, steps)
    # The smallest gap may be several steps where few levels are taken: try every number of steps.
    for count in range(2, _TOP + 1):
        left = ~fits
        if not left.any():
            break
        scale[left], fits[left] = _fit(groups[left], low[left], span[left], np.float32(count))
    scale[flat], fits[flat] = 1, True
    return StoredGrid(low, scale, fits)


def _fit(
    groups: npt.NDArray[np.float32],
    low: npt.NDArray[np.float32],
    span: npt.NDArray[np.float32],
    steps: npt.NDArray[np.float32] | np.float32,
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
    """The scale that parts each group's span into a number of steps, and whether its values lie on them."""
    scale = np.where(span == 0, 1, span / steps).astype(np.float32)
    off = (groups - low[..., None]) / scale[..., None]
    off -= np.rint(off)
    fits = (np.abs(off, out=off).max(axis=-1) <= _TOLERANCE) & (steps <= _TOP)
    return scale, fits


def kind_of_grid(matrix: npt.NDArray[np.float32]) -> GridKind | None:
    """The kind of grid that a matrix ``[rows, columns]`` lies on, by a sample of its rows from first to last.

    Returns:
        ``whole`` if whole zero_points hold every group's lowest value (as in Q4_0), ``real`` if groups need a rest,
        None if the matrix lies on no grid.
    """
    rows, columns = matrix.shape
    if columns % GROUP_SIZE or not rows:
        return None
    chosen = np.linspace(0, rows - 1, min(rows, _SAMPLED_ROWS)).astype(int)
    sample = np.ascontiguousarray(matrix[chosen], dtype=np.float32).reshape(len(chosen), -1, GROUP_SIZE)
    if not np.isfinite(sample).all() or not sample.any():
        return None
    grid = find_grid(sample)
    if not grid.fits.all():
        return None
    off = np.abs(_zero_point(grid) * grid.scale + grid.low)
    return "whole" if (off <= _TOLERANCE * grid.scale).all() else "real"


def keep_grid(matrix: npt.NDArray[np.float32]) -> tuple[BlockwiseWeight, npt.NDArray[np.float32]]:
    """A matrix's own codes and scales as a 4-bit weight, and the rest ``[rows, groups]`` of each group.

    A value is ``(code - zero_point) * scale + rest``. Groups that lie on no grid are fitted as closely as 4 bits can,
    with no rest.

    Args:
        matrix: The weights ``[rows, columns]``, columns a multiple of 32.
    """
    rows, columns = matrix.shape
    groups = columns // GROUP_SIZE
    codes = np.empty((rows, groups, GROUP_SIZE), np.uint8)
    scales, rest = np.empty((rows, groups), np.float32), np.empty((rows, groups), np.float32)
    zeros = np.empty((rows, groups), np.uint8)
    at_once = max(1, _ROWS_AT_ONCE_BYTES // (columns * 4))
    for start in range(0, rows, at_once):
        part = slice(start, start + at_once)
        block = np.ascontiguousarray(matrix[part], dtype=np.float32).reshape(-1, groups, GROUP_SIZE)
        codes[part], scales[part], zeros[part], rest[part] = _keep(block)
    return BlockwiseWeight(pack(codes, 4), scales, pack(zeros, 4), 4, GROUP_SIZE, columns), rest


def _zero_point(grid: StoredGrid) -> npt.NDArray[np.float32]:
    """The whole zero_point nearest to each group's own."""
    nearest: npt.NDArray[np.float32] = np.clip(np.rint(-grid.low / grid.scale), 0, _TOP)
    return nearest


def _keep(
    block: npt.NDArray[np.float32],
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float32], npt.NDArray[np.uint8], npt.NDArray[np.float32]]:
    grid = find_grid(block)
    low, scale, fits = grid
    codes = np.clip(np.rint((block - low[..., None]) / scale[..., None]), 0, _TOP).astype(np.uint8)
    zero = _zero_point(grid)
    rest = low + zero * scale
    if not fits.all():
        q, fitted, zeros = search_groups(block, 4, symmetric=False)
        codes[~fits], scale[~fits], zero[~fits], rest[~fits] = q[~fits], fitted[~fits], zeros[~fits], 0
    return codes, scale, zero.astype(np.uint8), rest
