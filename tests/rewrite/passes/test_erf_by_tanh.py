from __future__ import annotations

import math

import numpy as np

from chipwise.rewrite.passes.erf_by_tanh import COEFFICIENTS, LIMIT, ErfByTanh
from tests.check.test_activations import WAYS
from tests.rewrite.helpers import ops, rewritten, unchanged


def test_the_polynomial_is_as_close_as_it_says() -> None:
    x = np.linspace(-10, 10, 40001)
    clipped = np.clip(x, -LIMIT, LIMIT)
    value = np.tanh(sum(c * clipped ** (2 * k + 1) for k, c in enumerate(COEFFICIENTS)))
    assert np.max(np.abs(value - np.vectorize(math.erf)(x))) < 3e-6


def test_an_erf_of_its_own() -> None:
    sample = {"x": np.linspace(-6, 6, 50, dtype=np.float32)}
    result = rewritten("g (float[50] x) => (float[50] y) { y = Erf(x) }", ErfByTanh(), samples=(sample,))
    assert "Erf" not in ops(result.model)
    assert result.steps[0].max_abs_diff < 4e-6


def test_an_erf_in_a_gelu_is_left_to_the_toolchain() -> None:
    body = f"g (float[50] x) => (float[50] y) {{ {WAYS['gelu'][0]} }}"
    unchanged(body, ErfByTanh())
    assert "Erf" not in ops(rewritten(body, ErfByTanh(in_gelu=True)).model)


def test_no_erf() -> None:
    unchanged("g (float[4] x) => (float[4] y) { y = Tanh(x) }", ErfByTanh())
