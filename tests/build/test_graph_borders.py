from __future__ import annotations

import numpy as np
import pytest

from chipwise.build.graph_borders import settle_borders
from chipwise.errors import GraphError
from tests.check.graphs import graph, with_initializers


def test_what_a_compiler_leaves_out_is_taken_off_and_said() -> None:
    model = graph(
        "g (float[2] x, float[2] gone, float[2] w) => (float[2] y, float[2] x, float[2] w, float[1] k)"
        " { y = Add(x, w) k = Constant<value_floats=[1.0]>() }"
    )
    with_initializers(model, w=np.ones(2, np.float32))
    found = settle_borders(model)
    assert [value.name for value in model.graph.inputs] == ["x"]
    assert [value.name for value in model.graph.outputs] == ["y"]
    assert [(one.rule, one.where, one.measured) for one in found] == [
        ("output_left_out", "x", "an input as it is"),
        ("output_left_out", "w", "a constant"),
        ("output_left_out", "k", "a constant"),
        ("input_left_out", "gone", "read by no node"),
    ]


def test_what_follows_from_constants_and_shapes_is_constant_too() -> None:
    model = graph(
        "g (float[2] x) => (float[2] y, float[1] k, int64[1] s)"
        " { y = Relu(x) c = Constant<value_floats=[1.0]>() k = Identity(c) s = Shape(x) }"
    )
    assert [one.where for one in settle_borders(model)] == ["k", "s"]
    assert [node.op_type for node in model.graph] == ["Relu"]


def test_a_graph_that_computes_stays() -> None:
    model = graph("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    assert settle_borders(model) == ()


@pytest.mark.parametrize(
    "body",
    [
        "g (float[1] x) => (float[1] k) { k = Constant<value_floats=[1.0]>() }",
        "g (float[1] x) => (float[1] x) { y = Relu(x) }",
        "g () => (float[1] y) { k = Constant<value_floats=[1.0]>() y = Relu(k) }",
    ],
)
def test_nothing_to_compute_is_refused(body: str) -> None:
    with pytest.raises(GraphError, match="no output depends on an input"):
        settle_borders(graph(body))
