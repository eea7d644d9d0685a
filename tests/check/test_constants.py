from __future__ import annotations

import numpy as np

from chipwise.check.constants import constant_array, constant_scalar
from tests.check.graphs import graph, with_initializers


def test_constants_of_every_kind() -> None:
    model = graph(
        "g (float[2] x) => (float[2] y) <float w = {3.0}> { a = Constant<value_float=1.5>()"
        " b = Constant<value_ints=[1,2]>() c = Constant<value=float[2] {1,2}>() d = Add(x, a)"
        " e = Add(d, c) f = Cast<to=1>(b) h = Add(e, f) y = Mul(h, w) }"
    )
    values = {value.name: value for node in model.graph for value in (*node.inputs, *node.outputs) if value}
    assert constant_scalar(values["a"]) == 1.5
    assert constant_scalar(values["w"]) == 3.0
    assert constant_array(values["b"]).tolist() == [1, 2]
    assert constant_array(values["c"]).tolist() == [1.0, 2.0]
    assert constant_scalar(values["c"]) is None
    assert constant_array(values["d"]) is None
    assert constant_array(values["x"]) is None


def test_an_initializer_that_is_an_input_is_a_default_only() -> None:
    model = graph("g (float[2] x, float[2] w) => (float[2] y) { y = Add(x, w) }")
    weight = model.graph.inputs[1]
    with_initializers(model, w=np.ones(2, np.float32))
    assert constant_array(weight) is not None
    model.graph.inputs.append(weight)
    assert constant_array(weight) is None


def test_a_large_constant_is_not_read() -> None:
    model = graph("g (float[2] x, float[2] w) => (float[2] y) { y = Add(x, w) }")
    with_initializers(model, w=np.ones(2, np.float32))
    assert constant_array(model.graph.initializers["w"], max_size=1) is None
