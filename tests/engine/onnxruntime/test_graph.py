from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper as oh

from chipwise.engine.graph_session import GraphEngine, RunsInto
from chipwise.engine.null import NullEngine
from chipwise.engine.onnxruntime import OnnxRuntimeEngine
from chipwise.errors import EngineError

FEED = {"x": np.array([[1.0, 2.0, 3.0]], np.float32), "n": np.array([2])}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    nodes = [
        oh.make_node("Cast", ["n"], ["factor"], to=onnx.TensorProto.FLOAT),
        oh.make_node("Mul", ["x", "factor"], ["y"]),
        oh.make_node("ArgMax", ["x"], ["best"], axis=1),
    ]
    inputs = [
        oh.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["b", 3]),
        oh.make_tensor_value_info("n", onnx.TensorProto.INT64, [1]),
    ]
    outputs = [
        oh.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["b", 3]),
        oh.make_tensor_value_info("best", onnx.TensorProto.INT64, ["b", 1]),
    ]
    model = oh.make_model(oh.make_graph(nodes, "g", inputs, outputs), opset_imports=[oh.make_opsetid("", 17)])
    model.ir_version = 9
    file = tmp_path_factory.mktemp("graph") / "graph.onnx"
    onnx.save(model, file)
    return file


def test_named_arrays_in_and_out(path: Path) -> None:
    session = OnnxRuntimeEngine().open_graph(path, options={"threads": 1})
    assert (session.input_names, session.output_names) == (("x", "n"), ("y", "best"))
    found = session.run(FEED)
    assert found["y"].tolist() == [[2, 4, 6]]
    assert found["best"].tolist() == [[2]]


def test_numbers_of_another_type_are_converted(path: Path) -> None:
    session = OnnxRuntimeEngine().open_graph(path, options={})
    assert session.run({"x": [[1, 2, 3]], "n": np.array([2], np.int32)})["y"].tolist() == [[2, 4, 6]]


@pytest.mark.parametrize(
    ("feed", "says"),
    [
        ({"x": FEED["x"]}, "the input 'n' is missing; give the inputs x, n"),
        ({**FEED, "z": FEED["n"]}, "the graph has no input 'z'"),
        ({**FEED, "x": np.ones((1, 4), np.float32)}, "a step failed"),
    ],
)
def test_what_does_not_fit(feed: dict[str, np.ndarray], says: str, path: Path) -> None:
    with pytest.raises(EngineError) as caught:
        OnnxRuntimeEngine().open_graph(path, options={"threads": 1}).run(feed)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_closed_session(path: Path) -> None:
    session = OnnxRuntimeEngine().open_graph(path, options={"threads": 1})
    session.close()
    with pytest.raises(EngineError, match="closed"):
        session.run(FEED)


def test_options_and_files_that_are_wrong(path: Path, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="the option threads is 'two'"):
        OnnxRuntimeEngine().open_graph(path, options={"threads": "two"})
    (tmp_path / "cut.onnx").write_bytes(path.read_bytes()[:40])
    with pytest.raises(EngineError, match="cannot load the graph"):
        OnnxRuntimeEngine().open_graph(tmp_path / "cut.onnx", options={})


def test_which_engines_run_plain_graphs() -> None:
    assert isinstance(OnnxRuntimeEngine(), GraphEngine)
    assert not isinstance(NullEngine(), GraphEngine)


def test_outputs_of_known_shape_are_computed_in_their_place(tmp_path: Path) -> None:
    nodes = [oh.make_node("Neg", ["x"], ["y"]), oh.make_node("ArgMax", ["x"], ["best"], axis=1)]
    inputs = [oh.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2, 3])]
    outputs = [
        oh.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2, 3]),
        oh.make_tensor_value_info("best", onnx.TensorProto.INT64, [2, 1]),
    ]
    model = oh.make_model(oh.make_graph(nodes, "g", inputs, outputs), opset_imports=[oh.make_opsetid("", 17)])
    model.ir_version = 9
    onnx.save(model, tmp_path / "g.onnx")
    session = OnnxRuntimeEngine().open_graph(tmp_path / "g.onnx", options={"threads": 1})
    assert isinstance(session, RunsInto)
    memory = bytearray(128)
    x = np.frombuffer(bytes(np.arange(6, dtype=np.float32)), np.float32).reshape(2, 3)
    found = session.run_into({"x": x}, {"y": memoryview(memory)[64:96], "best": memoryview(memory)[1:17]})
    assert np.array_equal(found["y"], -x)
    assert found["best"].tolist() == [[2], [2]]
    whole = np.frombuffer(memory, np.uint8)
    assert np.shares_memory(found["y"], whole)
    assert np.array_equal(whole[64:88].view(np.float32), -x.ravel())
    # An odd address, too few bytes: these have arrays of their own, and nothing is written.
    assert not np.shares_memory(found["best"], whole)
    assert not whole[:64].any()
    small = session.run_into({"x": x}, {"y": memoryview(memory)[:8]})
    assert np.array_equal(small["y"], -x)
    assert not whole[:64].any()
    with pytest.raises(EngineError, match="the input 'x' is missing"):
        session.run_into({}, {})


def test_an_output_of_free_size_has_an_array_of_its_own(path: Path) -> None:
    session = OnnxRuntimeEngine().open_graph(path, options={"threads": 1})
    assert isinstance(session, RunsInto)
    memory = bytearray(64)
    found = session.run_into(FEED, {"y": memoryview(memory)})
    assert found["y"].tolist() == [[2, 4, 6]]
    assert not any(memory)
