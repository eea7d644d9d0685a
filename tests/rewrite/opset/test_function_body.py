from __future__ import annotations

from chipwise.rewrite.opset.function_body import expand
from tests.check.graphs import graph
from tests.rewrite.helpers import ops


def test_an_operator_is_written_out() -> None:
    model = graph("g (float[2,4] x) => (float[2,4] y) { y = Mish(x) }", 18)
    assert expand(model, list(model.graph), 18) == ["Mish"]
    assert ops(model) == ["Softplus", "Tanh", "Mul"]
    assert not model.functions
    assert model.graph.opset_imports == {"": 18}


def test_attributes_and_their_defaults_reach_the_body() -> None:
    model = graph("g (float[2,4] x) => (float[2,4] y) { y = Swish(x) }", 24)
    assert expand(model, list(model.graph), 24) == ["Swish"]
    assert all(node.attributes for node in model.graph if node.op_type == "Constant")


def test_an_operator_without_a_definition_stays() -> None:
    model = graph("g (float[2,4] x) => (float[2,4] y) { y = Relu(x) }")
    assert expand(model, [], 17) == []
    model = graph("g (float[4,4] x) => (float[4,4] y) { y = Trilu(x) }")
    assert expand(model, list(model.graph), 17) == []
    assert ops(model) == ["Trilu"]
