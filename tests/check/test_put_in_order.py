from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest

from chipwise.check.load import load_graph
from chipwise.rewrite.edit import remove_unused
from tests.check.graphs import graph, proto


def _runs(model: ir.Model, **feed: np.ndarray) -> list[np.ndarray]:
    session = ort.InferenceSession(ir.to_proto(model).SerializeToString(), providers=["CPUExecutionProvider"])
    found: list[np.ndarray] = session.run(None, feed)
    return found


def _load(model: onnx.ModelProto, folder: Path) -> ir.Model:
    onnx.save(model, folder / "m.onnx")
    return load_graph(folder / "m.onnx")


def test_a_weight_among_the_inputs_is_a_weight(tmp_path: Path) -> None:
    model = proto("g (float[1,4] x, float[4,4] w) => (float[1,4] y) { y = MatMul(x, w) }")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.eye(4, dtype=np.float32), "w"))
    loaded = _load(model, tmp_path)
    assert [value.name for value in loaded.graph.inputs] == ["x"]
    x = np.arange(4, dtype=np.float32)[None]
    assert np.array_equal(_runs(loaded, x=x)[0], x)


def test_nodes_of_one_name_get_names_of_their_own(tmp_path: Path) -> None:
    model = proto("g (float[1,4] x) => (float[1,4] y) { a = Relu(x) b = Neg(a) y = Abs(b) }")
    for node, name in zip(model.graph.node, ("n", "n", "n_1"), strict=True):
        node.name = name
    loaded = _load(model, tmp_path)
    assert [node.name for node in loaded.graph] == ["n", "n_2", "n_1"]
    _runs(loaded, x=np.ones((1, 4), np.float32))


@pytest.mark.parametrize("prune", [False, True])
def test_outputs_without_a_name_get_one_where_another_follows(prune: bool, tmp_path: Path) -> None:
    model = proto(
        "g (float[1,6] x) => (float[1,2] y, float[1,1,4] h)"
        " { a, gone, b = Split<axis=1, num_outputs=3>(x) y = Add(a, b) u = Unsqueeze(x, i) "
        " s, h = GRU<hidden_size=4>(u, w, r) }",
        18,
    )
    for name, array in {"i": np.array([0]), "w": np.ones((1, 12, 6), "f"), "r": np.ones((1, 12, 4), "f")}.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    model.graph.node[0].output[1] = ""
    loaded = _load(model, tmp_path)
    if prune:  # takes the name of the GRU's steps
        remove_unused(loaded)
    assert all(value.name for node in loaded.graph for value in node.outputs)
    assert len(_runs(loaded, x=np.ones((1, 6), np.float32))) == 2


def test_what_is_in_order_stays() -> None:
    model = graph("g (float[1,4] x) => (float[1,4] y) { y = Relu(x) }")
    remove_unused(model)
    assert [(node.name, node.outputs[0].name) for node in model.graph] == [(model.graph[0].name, "y")]
