from __future__ import annotations

import pytest

from chipwise.check.opset_schema import accepted
from chipwise.rewrite.opset.adapters import adapt
from tests.check.graphs import graph


@pytest.mark.parametrize(
    ("body", "source", "target"),
    [
        ("g (float[2,4] x) => (float[2,2] y, float[2,2] z) { y, z = Split<axis=1,num_outputs=2>(x) }", 18, 13),
        ("g (float[2,5] x) => (float[2,3] y, float[2,2] z) { y, z = Split<axis=1,num_outputs=2>(x) }", 18, 13),
        ("g (float[2,5] x) => (float[2,3] y, float[2,2] z) { y, z = Split<axis=1,num_outputs=2>(x) }", 18, 11),
        ("g (float[2,4] x) => (float[8] y) { s = Constant<value_ints=[8]>() y = Reshape<allowzero=1>(x, s) }", 14, 13),
        ("g (float[2,4] x) => (float[2,1] y) { a = Constant<value_ints=[1]>() y = ReduceMean(x, a) }", 18, 13),
        ("g (float[2,4] x) => (float[1,1] y) { y = ReduceMax<noop_with_empty_axes=0>(x) }", 18, 13),
        ("g (float[2,4] x) => (int32[2,4] y) { y = Cast<to=6,saturate=1>(x) }", 19, 13),
        ("g (float[2,4] x, int32[1] z) => (int32[2,4] y) { y = CastLike(x, z) }", 19, 13),
        ("g (float[2,4] x) => (float[2,4] y) { y = Softmax(x) }", 13, 11),
        (
            "g (float[1,1,4,4] x) => (float[1,1,8,8] y)"
            " { s = Constant<value_floats=[1.0,1.0,2.0,2.0]>() y = Resize<antialias=0>(x, , s) }",
            19,
            11,
        ),
        (
            "g (float[1,2,3] x, float[2] a, float[2] b, float[2] c, float[2] d) => (float[1,2,3] y)"
            " { y = BatchNormalization<training_mode=0>(x, a, b, c, d) }",
            15,
            11,
        ),
    ],
)
def test_what_is_newer_and_says_nothing_new_goes(body: str, source: int, target: int) -> None:
    model = graph(body, source)
    node = next(node for node in model.graph if node.op_type != "Constant")
    assert not accepted(node, source, target)
    assert adapt(node, target)
    assert node.op_type in ("Softmax",) or accepted(node, source, target)


@pytest.mark.parametrize(
    ("body", "source", "target"),
    [
        ("g (float[2,N] x) => (float[2,M] y, float[2,K] z) { y, z = Split<axis=1,num_outputs=2>(x) }", 18, 13),
        ("g (float[0,4] x) => (float[0] y) { s = Constant<value_ints=[0]>() y = Reshape<allowzero=1>(x, s) }", 14, 13),
        ("g (float[2,4] x, int64[1] a) => (float[2] y) { y = ReduceMean<keepdims=0>(x, a) }", 18, 13),
        ("g (float[2,4,3] x) => (float[2,4,3] y) { y = Softmax<axis=1>(x) }", 13, 11),
        (
            "g (float[1,1,4,4] x) => (float[1,1,8,8] y)"
            " { s = Constant<value_floats=[1.0,1.0,2.0,2.0]>() y = Resize<antialias=1>(x, , s) }",
            19,
            11,
        ),
        ("g (float[2] x) => (float[2] y) { y = Relu(x) }", 17, 11),
    ],
)
def test_what_says_something_new_stays(body: str, source: int, target: int) -> None:
    node = next(node for node in graph(body, source).graph if node.op_type != "Constant")
    assert not adapt(node, target)
