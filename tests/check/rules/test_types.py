from __future__ import annotations

import numpy as np
import onnx_ir as ir

from chipwise.check.rules.types import complex_numbers, input_types, int64_arithmetic, stored_floats
from tests.check.graphs import fact, given_graph, graph, target, with_initializers

RELU = "g (float[2] x) => (float[2] y) { y = Relu(x) }"


def test_a_refused_input_type() -> None:
    on = target(refused_input_dtypes=fact(("uint8",)))
    (one,) = input_types(given_graph(graph("g (uint8[2] x) => (float[2] y) { y = Cast<to=1>(x) }"), on))
    assert (one.where, one.measured) == ("x", "uint8")
    assert list(input_types(given_graph(graph(RELU), on))) == []


def test_int64_arithmetic_that_does_not_fold() -> None:
    computed = "g (int64[2] x) => (int64[2] y) { y = Add(x, x) }"
    (one,) = int64_arithmetic(given_graph(graph(computed), target()))
    assert one.measured == "1 nodes in int64"
    folded = "g (float[N] x) => (float[N] y) { s = Shape(x) t = Add(s, s) y = Relu(x) }"
    assert list(int64_arithmetic(given_graph(graph(folded), target()))) == []
    assert list(int64_arithmetic(given_graph(graph(computed), target(kind="cpu")))) == []


def test_stored_floats() -> None:
    model = graph("g (float[2] x, float16[2] w) => (float[2] y) { f = Cast<to=1>(w) y = Add(x, f) }")
    (one,) = stored_floats(given_graph(with_initializers(model, w=np.ones(2, np.float16)), target()))
    assert (one.severity, one.measured) == ("info", "1 in float16")
    assert list(stored_floats(given_graph(graph(RELU), target()))) == []


def test_complex_numbers_are_named() -> None:
    model = graph(RELU)
    assert list(complex_numbers(given_graph(model, target()))) == []
    model.graph[0].outputs[0].type = ir.TensorType(ir.DataType.COMPLEX64)
    (one,) = complex_numbers(given_graph(model, target()))
    assert (one.severity, one.measured) == ("error", "complex64")
