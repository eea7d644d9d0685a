from __future__ import annotations

import numpy as np
import pytest

from chipwise.quant.blockwise import quantize_blockwise
from chipwise.quant.gptq import quantize_gptq

RNG = np.random.default_rng(2)


def _correlated(n: int, columns: int) -> np.ndarray:
    """Inputs that move together, as a residual stream's do."""
    mixing = RNG.normal(size=(columns // 8, columns))
    return (RNG.normal(size=(n, columns // 8)) @ mixing + 0.3 * RNG.normal(size=(n, columns))).astype(np.float32)


def _loss(dense: np.ndarray, matrix: np.ndarray, x: np.ndarray) -> float:
    return float(np.square(x @ (dense - matrix).T).mean())


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("group_size", [32, 128])
def test_it_loses_less_than_rounding_on_correlated_inputs(symmetric: bool, group_size: int) -> None:
    matrix, seen, others = RNG.normal(size=(48, 128)).astype(np.float32), _correlated(600, 128), _correlated(0, 128)
    seen, others = seen[:400], seen[400:]
    rounded = quantize_blockwise(matrix, bits=4, group_size=group_size, symmetric=symmetric)
    found = quantize_gptq(matrix, seen.T @ seen, bits=4, group_size=group_size, symmetric=symmetric)
    # On inputs that it did not see.
    assert _loss(found.dequantize(), matrix, others) < 0.7 * _loss(rounded.dequantize(), matrix, others)


def test_without_correlation_it_is_about_as_good_as_rounding() -> None:
    matrix = RNG.normal(size=(32, 64)).astype(np.float32)
    found = quantize_gptq(matrix, np.eye(64, dtype=np.float32), bits=4, group_size=32, symmetric=False)
    rounded = quantize_blockwise(matrix, bits=4, group_size=32, symmetric=False)
    ours, theirs = (np.square(one.dequantize() - matrix).mean() for one in (found, rounded))
    assert ours == pytest.approx(theirs, rel=0.05)


def test_the_layout_is_that_of_rounding() -> None:
    matrix, x = RNG.normal(size=(8, 64)).astype(np.float32), _correlated(100, 64)
    found = quantize_gptq(matrix, x.T @ x, bits=4, group_size=32, symmetric=False)
    rounded = quantize_blockwise(matrix, bits=4, group_size=32, symmetric=False)
    for name in ("packed", "scales", "zero_points"):
        one, other = getattr(found, name), getattr(rounded, name)
        assert (one.shape, one.dtype) == (other.shape, other.dtype)


def test_rows_do_not_depend_on_each_other() -> None:
    matrix, x = RNG.normal(size=(300, 32)).astype(np.float32), _correlated(100, 32)
    whole = quantize_gptq(matrix, x.T @ x, bits=4, group_size=32, symmetric=False).dequantize()
    part = quantize_gptq(matrix[250:], x.T @ x, bits=4, group_size=32, symmetric=False).dequantize()
    assert np.allclose(whole[250:], part)


def test_inputs_that_never_moved() -> None:
    matrix, x = RNG.normal(size=(8, 32)).astype(np.float32), _correlated(50, 32)
    x[:, 5:9] = 0
    for hessian in (x.T @ x, np.zeros((32, 32), np.float32)):
        found = quantize_gptq(matrix, hessian, bits=4, group_size=32, symmetric=False).dequantize()
        assert np.isfinite(found).all()
        assert np.abs(found - matrix).max() < 1


def test_fewer_inputs_than_columns() -> None:
    matrix, x = RNG.normal(size=(8, 64)).astype(np.float32), _correlated(3, 64)
    found = quantize_gptq(matrix, x.T @ x, bits=4, group_size=32, symmetric=False).dequantize()
    assert np.isfinite(found).all()
