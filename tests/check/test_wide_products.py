from __future__ import annotations

import numpy as np
import pytest

from chipwise.check.wide_products import wide_products
from tests.check.graphs import graph, with_initializers

WEIGHT = np.zeros((4, 12), np.float32)
INPUTS = "float[2,4] x, float[4,12] w"


def _found(body: str, limit: int = 11) -> list[tuple[int, int]]:
    model = with_initializers(graph(body), w=WEIGHT)
    return [(one.rows, one.columns) for one in wide_products(model.graph, limit)]


def test_one_whose_rows_leave_the_graph() -> None:
    body = f"g ({INPUTS}) => (float[2,12] y) {{ m = MatMul(x, w) r = Relu(m) y = Identity(r) }}"
    assert _found(body) == [(2, 12)]
    assert _found(body, limit=12) == []


@pytest.mark.parametrize(
    "body",
    [
        f"g ({INPUTS}) => (float[12,2] y) {{ m = MatMul(x, w) y = Transpose(m) }}",
        f"g ({INPUTS}, float[12,4] v) => (float[2,4] y) {{ m = MatMul(x, w) r = Relu(m) y = MatMul(r, v) }}",
        "g (float[1,4] x, float[4,12] w) => (float[1,12] y) { y = MatMul(x, w) }",
        "g (float[B,4] x, float[4,12] w) => (float[B,12] y) { y = MatMul(x, w) }",
    ],
    ids=["turned already", "inside", "one row", "unknown rows"],
)
def test_those_that_stay(body: str) -> None:
    assert _found(body) == []


def test_a_computed_weight_is_none() -> None:
    body = f"g ({INPUTS}) => (float[2,12] y) {{ v = Relu(w) y = MatMul(x, v) }}"
    assert _found(body) == []
