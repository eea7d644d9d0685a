"""Weights on a 4-bit grid stay on it."""

from __future__ import annotations

import gguf
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chipwise.quant.group_sums import with_rest
from chipwise.quant.stored_grid import GROUP_SIZE, find_grid, keep_grid, kind_of_grid

Floats = npt.NDArray[np.float32]


def random_matrix(rows: int = 24, columns: int = 96, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).normal(0, 0.05, (rows, columns)).astype(np.float32)


def stored_as(kind: gguf.GGMLQuantizationType, matrix: Floats) -> Floats:
    """The values a GGUF file of a type gives back."""
    return gguf.quants.dequantize(gguf.quants.quantize(matrix, kind), kind).reshape(matrix.shape).astype(np.float32)


def kept_values(matrix: Floats) -> Floats:
    weight, rest = keep_grid(matrix)
    return weight.dequantize() + np.repeat(rest, GROUP_SIZE, axis=1)


@pytest.mark.parametrize("name", ["Q4_0", "Q4_1"])
def test_what_a_gguf_file_holds_is_kept(name: str) -> None:
    matrix = stored_as(gguf.GGMLQuantizationType[name], random_matrix())
    assert kind_of_grid(matrix) == ("whole" if name == "Q4_0" else "real")
    np.testing.assert_allclose(kept_values(matrix), matrix, atol=2e-6)


def test_k_quants_of_4_bits_are_kept() -> None:
    """Q4_K: scales and minima of 6 bits a group of 32, under two float16 a block of 256."""
    rng = np.random.default_rng(0)
    blocks = rng.integers(0, 256, (12, 144), dtype=np.uint8)
    blocks[:, :4] = np.array([[0.011, 0.007]] * 12, np.float16).view(np.uint8)
    matrix = gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType.Q4_K).reshape(4, 768).astype(np.float32)
    assert kind_of_grid(matrix) == "real"
    np.testing.assert_allclose(kept_values(matrix), matrix, atol=2e-5)


def test_a_symmetric_grid_needs_no_rest() -> None:
    _, rest = keep_grid(stored_as(gguf.GGMLQuantizationType.Q4_0, random_matrix()))
    assert np.abs(rest).max() < 1e-6


def test_bfloat16_rounding_does_not_hide_a_grid() -> None:
    exact = stored_as(gguf.GGMLQuantizationType.Q4_0, random_matrix())
    rounded = (exact.view(np.uint32) + 0x8000 & 0xFFFF0000).astype(np.uint32).view(np.float32)
    assert kind_of_grid(rounded) == "whole"
    step = keep_grid(rounded)[0].scales.max()
    assert np.abs(kept_values(rounded) - exact).max() < 0.1 * step


@pytest.mark.parametrize("name", ["Q8_0", "Q5_0", "Q5_1"])
def test_finer_grids_are_not_taken_for_4_bits(name: str) -> None:
    assert not kind_of_grid(stored_as(gguf.GGMLQuantizationType[name], random_matrix()))


def test_weights_on_no_grid() -> None:
    assert not kind_of_grid(random_matrix())
    assert not kind_of_grid(np.zeros((4, 64), np.float32))
    assert not kind_of_grid(np.full((4, 64), np.nan, np.float32))
    assert not kind_of_grid(stored_as(gguf.GGMLQuantizationType.Q4_0, random_matrix())[:, :80])


def test_one_part_on_no_grid_is_seen() -> None:
    """Rows of q, k and v lie in one matrix, and a file may store v more finely."""
    coarse = stored_as(gguf.GGMLQuantizationType.Q4_0, random_matrix(600))
    assert not kind_of_grid(np.concatenate([coarse, random_matrix(40, seed=1)]))


def test_a_stray_group_is_fitted() -> None:
    matrix = stored_as(gguf.GGMLQuantizationType.Q4_1, random_matrix())
    matrix[3, 32:64] = random_matrix(1, 32, seed=2)
    error = np.abs(kept_values(matrix) - matrix)
    step = np.ptp(matrix[3, 32:64]) / 15
    assert 0 < error[3, 32:64].max() <= 1.5 * step
    error[3, 32:64] = 0
    assert error.max() < 2e-6


@settings(deadline=None)
@given(
    levels=st.lists(st.integers(0, 15), min_size=32, max_size=32),
    step=st.floats(1e-4, 10),
    low=st.floats(-3, 3),
)
def test_any_levels_of_a_grid_are_found(levels: list[int], step: float, low: float) -> None:
    group = ((np.array(levels) + low * 5) * step).astype(np.float32).reshape(1, 1, 32)
    grid = find_grid(group)
    assert grid.fits.all()
    codes = np.rint((group - grid.low[..., None]) / grid.scale[..., None])
    assert 0 <= codes.min() <= codes.max() <= 15
    np.testing.assert_allclose(codes * grid.scale[..., None] + grid.low[..., None], group, atol=0.06 * step)


def test_rests_are_columns_of_the_weight() -> None:
    matrix = stored_as(gguf.GGMLQuantizationType.Q4_1, random_matrix())
    weight, rest = keep_grid(matrix)
    whole = with_rest(weight, rest)
    assert whole.columns == 96 + 3
    dense = whole.dequantize()
    np.testing.assert_array_equal(dense[:, :96], weight.dequantize())
    assert np.abs(dense[:, 96:] - rest).max() <= np.ptp(rest, axis=1).max() / 15
    x = np.random.default_rng(5).normal(0, 1, (7, 96)).astype(np.float32)
    appended = np.concatenate([x, x.reshape(7, 3, 32).sum(axis=2)], axis=1)
    error = np.abs(appended @ dense.T - x @ matrix.T).max()
    assert error < 0.1 * np.abs(x @ (weight.dequantize() - matrix).T).max()
