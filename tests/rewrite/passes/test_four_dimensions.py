from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from chipwise.rewrite.passes.four_dimensions import FourDimensions
from tests.check.graphs import graph, with_initializers
from tests.rewrite.helpers import ops, rewritten, unchanged

PASS = FourDimensions()


def _with(sizes: str, op: str = "y = Mul(x, c)") -> ir.Model:
    model = graph(f"g (float[2,3,4,5,6] x, float[{sizes}] c) => (float[2,3,4,5,6] y) {{ {op} }}")
    shape = [int(size) for size in sizes.split(",") if size]
    return with_initializers(model, c=np.random.default_rng(0).standard_normal(shape).astype(np.float32))


@pytest.mark.parametrize(
    ("sizes", "joined"),
    [
        ("1", [6, 4, 5, 6]),
        ("6", [6, 4, 5, 6]),
        ("4,5,6", [6, 4, 5, 6]),
        ("2,1,1,1,1", [2, 12, 5, 6]),
        ("2,3,4,5,6", [6, 4, 5, 6]),
    ],
)
def test_axes_that_the_constant_treats_alike_become_one(sizes: str, joined: list[int]) -> None:
    result = rewritten(_with(sizes), PASS)
    assert ops(result.model) == ["Reshape", "Mul", "Reshape"]
    assert list(result.model.graph[1].outputs[0].shape.numpy()) == joined


def test_a_constant_on_the_left() -> None:
    assert ops(rewritten(_with("6", "y = Sub(c, x)"), PASS).model) == ["Reshape", "Sub", "Reshape"]


def test_a_constant_that_leaves_nothing_to_join() -> None:
    unchanged(_with("3,1,5,1"), PASS)


def test_softmax_along_the_last_axis() -> None:
    body = "g (float[2,1,2,3,4,5] x) => (float[2,1,2,3,4,5] y) { y = Softmax<axis=5>(x) }"
    result = rewritten(body, PASS)
    assert list(result.model.graph[1].outputs[0].shape.numpy()) == [4, 3, 4, 5]


@pytest.mark.parametrize(
    "body",
    [
        "g (float[2,3,4,5] x) => (float[2,3,4,5] y) { c = Constant<value_float=2.0>() y = Mul(x, c) }",
        "g (float[2,3,4,5,6] x, float[6] c) => (float[2,3,4,5,6] y) { y = Mul(x, c) }",
        "g (float[2,3,4,5,6] x) => (float[2,3,4,5,6] y) { y = Softmax<axis=1>(x) }",
        "g (float[2,3,4,5,6] x) => (float[2,3,4,5,6] y) { y = Relu(x) }",
    ],
    ids=["four already", "no constant", "another axis", "takes any"],
)
def test_what_stays(body: str) -> None:
    unchanged(body, PASS)
