from __future__ import annotations

import numpy as np
import pytest

from chipwise.check.rules.values import float16_range, weights_not_finite
from tests.check.graphs import given_graph, graph, target, with_initializers

PRODUCT = "g (float[1,4] x, float[4,4] w) => (float[1,4] y) { y = MatMul(x, w) }"


def _given(value: float, body: str = PRODUCT, kind: str = "npu"):  # type: ignore[no-untyped-def]
    weight = np.eye(4, dtype=np.float32)
    weight[1, 1] = value
    return given_graph(with_initializers(graph(body), w=weight), target(kind=kind))


@pytest.mark.parametrize(("value", "found"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
def test_a_weight_that_is_no_number(value: float, found: str) -> None:
    (one,) = weights_not_finite(_given(value))
    assert (one.severity, one.where, one.measured) == ("error", "w", found)


def test_a_mask_may_be_infinite() -> None:
    assert list(weights_not_finite(_given(-np.inf, PRODUCT.replace("MatMul", "Add")))) == []


def test_beyond_float16() -> None:
    (large,) = float16_range(_given(-1e6))
    assert (large.severity, large.measured, large.limit) == ("warning", "a magnitude of 1e+06", "65504")
    assert list(float16_range(_given(-1e6, kind="cpu"))) == []
    assert list(float16_range(_given(65504))) == []


def test_a_factor_that_vanishes() -> None:
    model = graph("g (float[2] x) => (float[2] y) { k = Constant<value_float=0.00000001>() y = Mul(x, k) }")
    (one,) = float16_range(given_graph(model, target()))
    assert (one.where, one.measured) == ("k", "no magnitude above 1e-08")
    zero = graph("g (float[2] x) => (float[2] y) { k = Constant<value_float=0.0>() y = Mul(x, k) }")
    assert list(float16_range(given_graph(zero, target()))) == []
