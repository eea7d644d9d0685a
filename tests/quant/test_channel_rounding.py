from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from chipwise.quant.channel_rounding import ChannelWeight, round_channels, round_groups

RNG = np.random.default_rng(4)

_LIMIT = 2.0**100
_ROWS = hnp.arrays(
    np.float32,
    st.tuples(st.integers(1, 4), st.integers(1, 40)),
    elements=st.one_of(
        st.just(0.0),
        st.floats(-1, 1, width=32),
        st.floats(-_LIMIT, _LIMIT, width=32),
        st.floats(-(2.0**-90), 2.0**-90, width=32, allow_subnormal=False),
    ),
)


def _toolkit(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What the toolkit makes of weights: their integers, and the step of each row. Written from its rule, not ours."""
    exact = matrix.astype(np.float64)
    low, high = np.minimum(exact.min(1), 0), np.maximum(exact.max(1), 0)
    step = np.where(high > low, (high - low) / 255, 1.0)
    zero = np.clip(np.rint(-128 - low / step), -128, 127)
    return np.clip(np.rint(exact / step[:, None]) + zero[:, None], -128, 127).astype(np.int8), step


def _hessian(columns: int, n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """The Hessian of inputs that move together, and others of the same kind that it has not seen."""
    mixing = RNG.normal(size=(max(1, columns // 8), columns))
    x = RNG.normal(size=(2 * n, len(mixing))) @ mixing + 0.3 * RNG.normal(size=(2 * n, columns))
    seen, others = x[:n].astype(np.float32), x[n:].astype(np.float32)
    return seen.T @ seen, others


def _is_on_the_grid(rounded: ChannelWeight) -> None:
    """Rounding again, as the toolkit does, finds the same integers and the same step."""
    dense = rounded.dense()
    again, step = _toolkit(dense)
    moved = np.abs(again.astype(int) - rounded.values.astype(int)).max(1)
    lives = np.abs(dense).max(1) > 0
    assert (moved[lives] == 0).all()
    assert np.allclose(step[lives], rounded.scale[lives], rtol=1e-5)


@settings(max_examples=60)
@given(matrix=_ROWS)
def test_nearest_rounding_is_off_by_half_a_step_at_most(matrix: np.ndarray) -> None:
    rounded = round_channels(matrix, None)
    span = np.maximum(matrix.max(1), 0).astype(np.float64) - np.minimum(matrix.min(1), 0)
    error = np.abs(rounded.dense().astype(np.float64) - matrix)
    # A number of 255 steps is known to 1e-5 of a step; steps that float32 does not hold leave zeros.
    assert (error <= np.maximum(0.501 * span[:, None] / 255, 255 * np.finfo(np.float32).tiny)).all()


@settings(max_examples=60)
@given(matrix=_ROWS)
def test_what_is_rounded_is_not_rounded_again(matrix: np.ndarray) -> None:
    _is_on_the_grid(round_channels(matrix, None))


@settings(max_examples=40)
@given(matrix=_ROWS, seed=st.integers(0, 1000))
def test_with_a_hessian_it_is_not_rounded_again_either(matrix: np.ndarray, seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal((30, matrix.shape[1])).astype(np.float32)
    _is_on_the_grid(round_channels(matrix, x.T @ x))


@pytest.mark.parametrize(
    ("row", "values", "zero"),
    [
        ([0.0, 0.0, 0.0], [-128, -128, -128], -128),
        ([1.0, 2.0, 4.0], [-64, 0, 127], -128),
        ([-1.0, -2.0, -4.0], [63, -1, -128], 127),
        ([3.0, 3.0, 3.0], [127, 127, 127], -128),
        ([-3.0, -3.0, -3.0], [-128, -128, -128], 127),
        ([-1.0, 0.0, 1.04], [-128, -3, 127], -3),
        ([0.0, 255.0, 1.0], [-128, 127, -127], -128),
    ],
)
def test_rows_of_one_sign_and_none(row: list[float], values: list[int], zero: int) -> None:
    rounded = round_channels(np.array([row], np.float32), None)
    assert rounded.zero_point.tolist() == [zero]
    assert np.abs(rounded.values[0].astype(int) - values).max() <= (1 if row[0] * row[-1] else 0)
    assert rounded.values[0, np.argmax(row)] == values[int(np.argmax(row))]
    assert rounded.values[0, np.argmin(row)] == values[int(np.argmin(row))]


@pytest.mark.parametrize("size", [1e-44, 1e-38, 1e-30, 1e30, 3e38])
def test_huge_and_tiny_numbers(size: float) -> None:
    """The ends of such a row are as far apart as float32 can tell, or cannot."""
    matrix = (np.array([[-1.0, 0.25, 0.5, 1.0], [0.0, 0.1, 0.7, 1.0]]) * size).astype(np.float32)
    dense = round_channels(matrix, None).dense()
    assert np.isfinite(dense).all()
    assert np.abs(dense.astype(np.float64) - matrix).max() <= max(0.004 * size, 255 * np.finfo(np.float32).tiny)


def test_rows_know_nothing_of_each_other() -> None:
    matrix, (hessian, _) = RNG.normal(size=(6, 200)).astype(np.float32), _hessian(200)
    matrix[2] *= 1000
    whole, part = round_channels(matrix, hessian), round_channels(matrix[3:], hessian)
    assert np.array_equal(whole.values[3:], part.values)
    assert np.array_equal(whole.scale[3:], part.scale)


@pytest.mark.parametrize("columns", [48, 128, 300])
def test_with_a_hessian_the_output_errs_less(columns: int) -> None:
    """On inputs that it has not seen, over blocks of columns too."""
    matrix, (hessian, others) = RNG.normal(size=(32, columns)).astype(np.float32), _hessian(columns)
    nearest, found = (round_channels(matrix, given).dense() for given in (None, hessian))
    losses = [float(np.square(others @ (one - matrix).T).mean()) for one in (nearest, found)]
    assert losses[1] < 0.6 * losses[0]
    # And it is still a grid of the same steps.
    assert np.abs(found - matrix).max() < 8 * np.abs(nearest - matrix).max()


def test_inputs_that_never_move_and_fewer_inputs_than_columns() -> None:
    matrix = RNG.normal(size=(4, 40)).astype(np.float32)
    x = RNG.normal(size=(5, 40)).astype(np.float32)
    x[:, 3:9] = 0
    for hessian in (x.T @ x, np.zeros((40, 40), np.float32)):
        dense = round_channels(matrix, hessian).dense()
        assert np.isfinite(dense).all()
        assert np.abs(dense - matrix).max() < 0.5


def test_types_and_the_matrix_given() -> None:
    matrix = RNG.normal(size=(3, 5)).astype(np.float32)
    kept = matrix.copy()
    rounded = round_channels(matrix, np.eye(5, dtype=np.float32))
    assert np.array_equal(matrix, kept)
    assert (rounded.values.dtype, rounded.scale.dtype, rounded.zero_point.dtype) == (np.int8, np.float32, np.int32)
    assert rounded.dense().dtype == np.float32


def _toolkit_groups(matrix: np.ndarray, group_size: int) -> tuple[np.ndarray, np.ndarray]:
    """What the toolkit makes of weights in 4 bits: integers and scales, written from its rule."""
    grouped = matrix.astype(np.float64).reshape(len(matrix), -1, group_size)
    scale = np.abs(grouped).max(-1) / 7
    values = np.rint(grouped / np.where(scale > 0, scale, 1)[..., None])
    return values.reshape(matrix.shape).astype(np.int8), scale


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("group_size", [32, 64])
def test_four_bits_in_groups_are_not_rounded_again(group_size: int, given: bool) -> None:
    matrix, (hessian, _) = RNG.normal(size=(16, 192)).astype(np.float32), _hessian(192)
    matrix[3, :64] = 0
    matrix[4, 64:128] = 2.5
    matrix[5] *= 1e20
    rounded = round_groups(matrix, hessian if given else None, group_size)
    values, scale = _toolkit_groups(rounded.dense(), group_size)
    assert np.array_equal(values, rounded.values)
    assert np.allclose(scale, rounded.scale, rtol=1e-5, atol=1e-30)
    if not given:
        error = np.abs(rounded.dense().astype(np.float64) - matrix).reshape(16, -1, group_size)
        assert (error <= 0.501 * rounded.scale[..., None]).all()


def test_with_a_hessian_four_bits_err_less() -> None:
    matrix, (hessian, others) = RNG.normal(size=(32, 256)).astype(np.float32), _hessian(256)
    nearest, found = (round_groups(matrix, given, 32).dense() for given in (None, hessian))
    losses = [float(np.square(others @ (one - matrix).T).mean()) for one in (nearest, found)]
    assert losses[1] < 0.6 * losses[0]
