from __future__ import annotations

import numpy as np
import pytest

from chipwise.rewrite.passes.scalar_borders import ScalarBorders
from tests.check.graphs import graph
from tests.rewrite.helpers import ops, rewritten, unchanged

PASS = ScalarBorders()


def _shapes(values: object) -> list[tuple[int, ...]]:
    return [tuple(value.shape.numpy()) for value in values]  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", ["float", "int64"])
def test_inputs_without_dimensions_get_one(kind: str) -> None:
    body = f"g (float[2,4] x, {kind} t) => (float[2,4] y) {{ f = Cast<to=1>(t) y = Mul(x, f) }}"
    result = rewritten(graph(body), PASS)
    assert _shapes(result.model.graph.inputs) == [(2, 4), (1,)]
    assert result.steps[0].notes[0] == "input t is [1]"
    assert ops(result.model)[0] == "Squeeze"


def test_outputs_without_dimensions_get_one_and_are_read_on_as_they_were() -> None:
    body = "g (float[2,4] x) => (float y, float[2,4] z) { a = ReduceMean<keepdims=0>(x) y = Identity(a) z = Mul(x, y) }"
    result = rewritten(graph(body), PASS)
    assert [value.name for value in result.model.graph.outputs] == ["y", "z"]
    assert _shapes(result.model.graph.outputs) == [(1,), (2, 4)]
    assert not np.isnan(result.steps[0].max_abs_diff)


def test_an_input_that_goes_out_as_it_came_stays() -> None:
    unchanged(graph("g (float t, float[1] x) => (float[1] y, float t) { y = Add(x, x) }"), PASS)


def test_borders_with_dimensions_stay() -> None:
    unchanged(graph("g (float[1] t, float[2,4] x) => (float[2,4] y) { y = Mul(x, t) }"), PASS)
