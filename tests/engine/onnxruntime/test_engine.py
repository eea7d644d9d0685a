from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper as oh
from onnxruntime.capi import onnxruntime_pybind11_state as state

from chipwise.background import in_background
from chipwise.engine import Batch
from chipwise.engine.onnxruntime import OnnxRuntimeEngine, decoder_graph
from chipwise.engine.onnxruntime.open_graph import open_graph
from chipwise.errors import EngineError
from tests.model.decoder.random_models import tokens
from tests.model.decoder.sessions import CONTEXT

_PAIR = ("QuantizeLinear", "DequantizeLinear")


def _open(files: dict[str, Path], *, n_slots: int = 1, max_context: int = 16, **options: Any) -> str:
    """The message of the error that opening ends in."""
    with pytest.raises(EngineError) as e:
        OnnxRuntimeEngine().open(files, n_slots=n_slots, max_context=max_context, options=options)
    assert "\n" not in str(e.value)
    return str(e.value)


@pytest.fixture(scope="session")
def graphs(graph_files: dict[str, dict[str, Path]]) -> dict[str, Path]:
    return {**graph_files["fused"], **graph_files["dynamic"], "static": graph_files["static"]["decode"]}


def test_roles_that_make_no_decoder(graphs: dict[str, Path]) -> None:
    assert "needs the role 'decoder'" in _open({"prefill": graphs["prefill"]})


@pytest.mark.skipif(sys.platform != "linux", reason="threads have a niceness on Linux alone")
def test_threads_of_a_model_that_was_opened_in_the_background_have_the_usual_priority(graphs: dict[str, Path]) -> None:
    def tasks() -> set[int]:
        return {int(entry.name) for entry in Path("/proc/self/task").iterdir()}

    usual = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    before = tasks()
    with in_background():
        session = OnnxRuntimeEngine().open(
            {"decoder": graphs["decoder"]}, n_slots=1, max_context=16, options={"threads": 4}
        )
    started = tasks() - before
    assert len(started) >= 3
    assert {os.getpriority(os.PRIO_PROCESS, task) for task in started} == {usual}
    session.close()


def test_an_option_that_is_no_flag(graphs: dict[str, Path]) -> None:
    assert "the option fuse_qdq is 1, not true or false" in _open({"decoder": graphs["decoder"]}, fuse_qdq=1)
    assert "the option yields is 'no', not true or false" in _open({"decoder": graphs["decoder"]}, yields="no")


@pytest.mark.parametrize("option", ["threads", "mask_value", "sliding_window"])
def test_an_option_that_is_no_number(option: str, graphs: dict[str, Path]) -> None:
    message = _open({"prefill": graphs["prefill"], "decode": graphs["decode"]}, **{option: "two"})
    assert f"the option {option} is 'two', not a number" in message


def test_nothing_to_hold(graphs: dict[str, Path]) -> None:
    assert "0 slots of 16 tokens" in _open({"decoder": graphs["decoder"]}, n_slots=0)


def test_a_missing_file(tmp_path: Path) -> None:
    assert "nowhere.onnx" in _open({"decoder": tmp_path / "nowhere.onnx"})


@pytest.mark.parametrize("keep", [0.0, 0.1, 0.5, 0.999])
def test_a_truncated_graph(keep: float, graphs: dict[str, Path], tmp_path: Path) -> None:
    content = graphs["decoder"].read_bytes()
    (tmp_path / "cut.onnx").write_bytes(content[: int(len(content) * keep)])
    assert "cannot load the graph" in _open({"decoder": tmp_path / "cut.onnx"})


def test_a_file_that_is_no_graph(tmp_path: Path) -> None:
    (tmp_path / "pointer.onnx").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    assert "cannot load the graph" in _open({"decoder": tmp_path / "pointer.onnx"})


@pytest.mark.parametrize("damage", ["missing", "truncated"])
def test_weights_that_are_not_whole(damage: str, graphs: dict[str, Path], tmp_path: Path) -> None:
    ir.save(ir.load(graphs["decoder"]), tmp_path / "graph.onnx", external_data="weights.bin")
    weights = tmp_path / "weights.bin"
    content = weights.read_bytes()
    weights.unlink()
    if damage == "truncated":
        weights.write_bytes(content[:-1000])
    assert "cannot load the graph" in _open({"decoder": tmp_path / "graph.onnx"})


def test_graphs_in_each_others_place(graphs: dict[str, Path]) -> None:
    assert "it has no seqlens_k" in _open({"decoder": graphs["decode"]})
    assert "it has no KV cache" in _open({"prefill": graphs["prefill"], "decode": graphs["prefill"]})


def test_a_context_the_graph_does_not_reach(graphs: dict[str, Path]) -> None:
    assert f"names {CONTEXT} positions, not 49" in _open({"decoder": graphs["decoder"]}, max_context=49)


def test_a_decode_graph_whose_cache_is_too_short(graphs: dict[str, Path], tmp_path: Path) -> None:
    portable = {}
    for role, path in (("prefill", graphs["prefill"]), ("decode", graphs["static"])):
        model = ir.load(path)
        model.metadata_props["chipwise.context"] = "4096"
        portable[role] = tmp_path / f"{role}.onnx"
        ir.save(model, portable[role])
    assert f"holds {CONTEXT} tokens, not {CONTEXT + 1}" in _open(portable, max_context=CONTEXT + 1)


def test_a_slot_shorter_than_the_cache_of_a_static_graph(graphs: dict[str, Path]) -> None:
    portable = {"prefill": graphs["prefill"], "decode": graphs["static"]}
    logits = []
    for context in (CONTEXT, 16):
        session = OnnxRuntimeEngine().open(portable, n_slots=2, max_context=context, options={"threads": 1})
        assert session.max_context == context
        session.step(Batch(0, np.array([tokens()[:9]]), np.array([0])))
        logits.append(session.step(Batch(0, np.array([[tokens()[9]]]), np.array([9]))).logits)
        with pytest.raises(EngineError, match=f"a slot holds {context}"):
            session.step(Batch(0, np.array([[1]]), np.array([context])))
        session.close()
    assert np.array_equal(*logits)


def test_pairs_that_emulate_a_chip_run_as_they_are_written(tmp_path: Path) -> None:
    quantize = [(op, ["x" if op == "QuantizeLinear" else "q", "scale", "zero"]) for op in _PAIR]
    # Two pairs of different steps: ONNX Runtime would merge them into one.
    nodes = [oh.make_node(op, names, ["q" if op == "QuantizeLinear" else "d"]) for op, names in quantize]
    nodes += [oh.make_node("QuantizeLinear", ["d", "fine", "zero"], ["q2"])]
    nodes += [oh.make_node("DequantizeLinear", ["q2", "fine", "zero"], ["y"])]
    zero = onnx.numpy_helper.from_array(np.array(0, np.int8), "zero")
    scales = [onnx.numpy_helper.from_array(np.float32(x), name) for x, name in ((1.0, "scale"), (0.3, "fine"))]
    shape = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4]) for name in "xy"]
    graph = oh.make_graph(nodes, "pairs", shape[:1], shape[1:], [zero, *scales])
    path = tmp_path / "pairs.onnx"
    onnx.save(oh.make_model(graph, opset_imports=[oh.make_opsetid("", 17)], ir_version=9), path)
    x = np.array([0.4, 0.6, 1.4, 2.6], np.float32)
    found = open_graph(path, threads=1, fuse_qdq=False).run(None, {"x": x})[0]
    assert np.allclose(found, np.rint(np.rint(x) / np.float32(0.3)) * 0.3)
    merged = open_graph(path, threads=1).run(None, {"x": x})[0]
    assert not np.allclose(found, merged)  # otherwise this test shows nothing


def test_a_graph_that_does_not_say_its_mask(graphs: dict[str, Path], tmp_path: Path) -> None:
    model = ir.load(graphs["decode"])
    del model.metadata_props["chipwise.sliding_window"]
    ir.save(model, tmp_path / "decode.onnx")
    files = {"prefill": graphs["prefill"], "decode": tmp_path / "decode.onnx"}
    assert "nothing says the sliding_window" in _open(files)
    OnnxRuntimeEngine().open(files, n_slots=1, max_context=16, options={"sliding_window": 7}).close()
    del model.metadata_props["chipwise.mask_value"]
    ir.save(model, tmp_path / "decode.onnx")
    assert "nothing says the mask_value" in _open(files, sliding_window=7)


@pytest.mark.parametrize("version", ["1.22.1", "1.23.2"])
def test_a_runtime_whose_window_is_another(
    version: str, graphs: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoder_graph.ort, "__version__", version)
    assert f"needs onnxruntime 1.24, this is {version}" in _open({"decoder": graphs["decoder"]})


def test_a_failing_step_is_one_error(graphs: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    from numpy import array

    from chipwise.engine import Batch

    session = OnnxRuntimeEngine().open({"decoder": graphs["decoder"]}, n_slots=1, max_context=16, options={})

    def fail(*_: object) -> None:
        raise state.RuntimeException("first line\nsecond line")

    monkeypatch.setattr(decoder_graph.ort.InferenceSession, "run_with_iobinding", fail)
    with pytest.raises(EngineError, match=r"^onnxruntime: a step failed \(first line\)$"):
        session.step(Batch(0, array([[1]]), array([0])))
