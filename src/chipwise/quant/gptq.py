"""GPTQ: quantize a weight column by column and let the columns that follow make up for the error.

Frantar, Ashkboos, Hoefler & Alistarh, "GPTQ", arXiv 2210.17323, algorithm 1, with a scale and zero_point a group
chosen from the weights as the earlier groups left them.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from chipwise.quant.blockwise import BlockwiseWeight, pack, search_groups

# Share of the mean diagonal added to it, so that inputs that never moved do not make the Hessian singular.
DAMPING = 0.01
_ROWS_AT_ONCE = 1024
_THREADS = 2
_SMALL = 64


def quantize_gptq(
    matrix: npt.NDArray[np.float32],
    hessian: npt.NDArray[np.float32],
    *,
    bits: int,
    group_size: int,
    symmetric: bool,
) -> BlockwiseWeight:
    """Quantize a matrix ``[rows, columns]`` so that its product with typical inputs changes least.

    Args:
        matrix: The weights, output channels first; columns a multiple of ``group_size``.
        hessian: Sum of ``x x^T`` over inputs x of this layer, ``[columns, columns]``.
        bits: 4 or 8.
        group_size: Values a group.
        symmetric: Whether zero is the middle of the range.
    """
    rows, columns = matrix.shape
    groups = columns // group_size
    upper = inverse_cholesky(hessian)
    q = np.empty((rows, groups, group_size), np.uint8)
    scales = np.empty((rows, groups), np.float32)
    zeros = np.empty((rows, groups), np.uint8)

    def run(start: int) -> None:
        part = slice(start, start + _ROWS_AT_ONCE)
        weights = np.array(matrix[part], dtype=np.float32, order="C")
        q[part], scales[part], zeros[part] = _quantize_rows(weights, upper, bits, group_size, symmetric)

    # Rows do not know of each other, and numpy lets go of the interpreter while it works on them.
    with ThreadPoolExecutor(_THREADS) as pool:
        for _ in pool.map(run, range(0, rows, _ROWS_AT_ONCE)):
            pass
    return BlockwiseWeight(pack(q, bits), scales, None if symmetric else pack(zeros, bits), bits, group_size, columns)


def _quantize_rows(
    weights: npt.NDArray[np.float32],
    upper: npt.NDArray[np.float32],
    bits: int,
    group_size: int,
    symmetric: bool,
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float32], npt.NDArray[np.uint8]]:
    """Stored values, scales and zero_points of some rows, which are used up."""
    rows, columns = weights.shape
    groups = columns // group_size
    # What an error in a column costs once all later columns have made up for it as well as they can.
    importance = (1 / np.diagonal(upper) ** 2).astype(np.float32).reshape(groups, group_size)
    top = np.float32((1 << bits) - 1)
    q = np.empty((rows, groups, group_size), np.uint8)
    scales = np.empty((rows, groups), np.float32)
    zeros = np.empty((rows, groups), np.uint8)
    for group in range(groups):
        start, stop = group * group_size, (group + 1) * group_size
        block = weights[:, None, start:stop]
        _, found_scale, found_zero = search_groups(block, bits, symmetric, importance[group : group + 1])
        scale, zero = found_scale[:, 0], found_zero[:, 0].astype(np.float32)
        # Columns as rows: each step below reads and writes whole contiguous lines.
        columns_left = np.ascontiguousarray(weights[:, start:stop].T)
        errors = np.empty_like(columns_left)
        for i, column in enumerate(columns_left):
            stored = np.clip(np.rint(column / scale) + zero, 0, top)
            q[:, group, i] = stored
            error = (column - (stored - zero) * scale) / upper[start + i, start + i]
            columns_left[i + 1 :] -= upper[start + i, start + i + 1 : stop, None] * error
            errors[i] = error
        weights[:, stop:] -= errors.T @ upper[start:stop, stop:]
        scales[:, group], zeros[:, group] = scale, found_zero[:, 0]
    return q, scales, zeros


def inverse_cholesky(hessian: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """The upper Cholesky factor of the damped Hessian's inverse."""
    damped = np.array(hessian, dtype=np.float32)
    diagonal = np.einsum("ii->i", damped)
    # An input that is always zero says nothing about its column: give it the weight of a typical one.
    mean = float(diagonal.mean()) or 1.0
    diagonal[diagonal == 0] = mean
    diagonal += DAMPING * mean
    # H = R R^T with R upper is the Cholesky factor of H read from its last row and column; then inv(H) = U^T U with
    # U = inv(R): a third of the work of inverting H and factoring the inverse.
    reversed_factor = np.linalg.cholesky(damped[::-1, ::-1])
    return _inverse_upper(np.ascontiguousarray(reversed_factor[::-1, ::-1]))


def _inverse_upper(matrix: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """The inverse of an upper triangular matrix, by halves, so that most of it is matrix products."""
    n = len(matrix)
    if n <= _SMALL:
        return np.triu(np.linalg.inv(matrix)).astype(np.float32)
    half = n // 2
    result = np.zeros_like(matrix)
    first, last = _inverse_upper(matrix[:half, :half]), _inverse_upper(matrix[half:, half:])
    result[:half, :half], result[half:, half:] = first, last
    result[:half, half:] = -(first @ matrix[:half, half:]) @ last
    return result
