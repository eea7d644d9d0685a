from __future__ import annotations

import numpy as np
import pytest
from onnx import helper as oh

from chipwise.quant.affine import affine
from chipwise.quant.pairs import insert_pair, pair_ranges
from tests.quant.small_graphs import graph, run


def _model():
    nodes = [
        oh.make_node("Relu", ["x"], ["a"]),
        oh.make_node("Neg", ["a"], ["b"]),
        oh.make_node("Add", ["a", "b"], ["y"]),
    ]
    return graph(nodes, {"x": [4]}, {"a": [4], "y": [4]}, {})


X = np.array([0.1, 0.26, 0.9, -4], np.float32)


def test_all_users_and_the_output_read_the_integers_back() -> None:
    model = _model()
    value = next(node for node in model.graph if node.op_type == "Relu").outputs[0]
    insert_pair(model.graph, value, affine(0, 1))
    found = run(model, {"x": X})
    assert np.array_equal(found["a"], affine(0, 1).round_trip(np.maximum(X, 0)))
    assert not found["y"].any()
    assert [output.name for output in model.graph.outputs] == ["a", "y"]


def test_some_users_alone() -> None:
    model = _model()
    relu, neg, _ = model.graph
    insert_pair(model.graph, relu.outputs[0], affine(0, 1), users=[neg])
    found = run(model, {"x": X})
    assert np.array_equal(found["a"], np.maximum(X, 0))
    assert np.allclose(found["y"], found["a"] - affine(0, 1).round_trip(found["a"]), atol=1e-7)


def test_an_input_keeps_its_name() -> None:
    model = _model()
    insert_pair(model.graph, model.graph.inputs[0], affine(-1, 1))
    assert [value.name for value in model.graph.inputs] == ["x"]
    assert run(model, {"x": X})["a"][0] == affine(-1, 1).round_trip(X)[0]


def test_a_value_nobody_reads_gets_none() -> None:
    model = _model()
    before = len(list(model.graph))
    insert_pair(model.graph, next(iter(model.graph)).outputs[0], affine(0, 1), users=[])
    assert len(list(model.graph)) == before


@pytest.mark.parametrize("signed", [True, False])
def test_the_ranges_that_scales_span(signed: bool) -> None:
    model = _model()
    insert_pair(model.graph, model.graph.inputs[0], affine(-2, 6, signed=signed))
    found = pair_ranges(model)["x"]
    assert (found.low, found.high) == pytest.approx((-2, 6), abs=8 / 255)
