"""The runner of Rockchip's toolkit, with a toolkit that only writes down what it is asked."""

from __future__ import annotations

import importlib.util
import json
import socket
import sys
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnx import helper as oh

from chipwise.toolchain.runners import JOB_MAIN

Job = Any

PARAMETERS = {
    name: {"qtype": "asym", "dtype": "int8", "scale": [0.1], "zero_point": [0], "min": [-12.8], "max": [12.7]}
    for name in ("x", "q_mm", "k_mm", "q_out", "o_mm", "s", "y-rs", "other")
}


class FakeRknn:
    """The methods that the runner calls; ``calls`` is shared, as the runner makes a second object."""

    calls: list[tuple[str, Any, Any]]
    codes: dict[str, int]
    graph: onnx.ModelProto

    def __init__(self, verbose: bool) -> None:
        self.calls.append(("RKNN", (), {"verbose": verbose}))

    def __getattr__(self, name: str) -> Any:
        def method(*arguments: Any, **options: Any) -> Any:
            self.calls.append((name, arguments, options))
            if name == "hybrid_quantization_step1":
                onnx.save(self.graph, "m.model")
                Path("m.quantization.cfg").write_text(json.dumps({"quantize_parameters": PARAMETERS}))
            if name == "export_rknn":
                Path(arguments[0]).write_bytes(b"RKNN")
            if name == "inference":
                return [one * 2 for one in options["inputs"]] if not self.codes.get(name) else None
            return self.codes.get(name, 0)

        return method


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Job:
    """The runner as a module, in a folder of its own."""
    FakeRknn.calls, FakeRknn.codes, FakeRknn.graph = [], {}, _toolkits_graph()

    class FakeYaml:
        """JSON is YAML."""

        def __init__(self, **options: Any) -> None:
            pass

        def load(self, path: Path) -> Any:
            return json.loads(path.read_text())

        def dump(self, data: Any, path: Path) -> None:
            path.write_text(json.dumps(data))

    for name, members in {
        "rknn": {},
        "rknn.api": {"RKNN": FakeRknn},
        "ruamel": {},
        "ruamel.yaml": {"YAML": FakeYaml},
    }.items():
        module = ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "live", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    spec = importlib.util.spec_from_file_location("rknn_job_in_tests", JOB_MAIN.with_name("rknn_job.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.modules.pop("live", None)


def _model(nodes: list[onnx.NodeProto]) -> onnx.ModelProto:
    value = oh.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    return oh.make_model(oh.make_graph(nodes, "g", [value], [oh.make_tensor_value_info("y", TensorProto.FLOAT, [1])]))


def _toolkits_graph() -> onnx.ModelProto:
    """q and k of one activation, k under a name of the toolkit's own, a product behind them, one of two activations."""
    return _model(
        [
            oh.make_node("MatMul", ["x", "q.weight"], ["q_mm"]),
            oh.make_node("exMatMul", ["x", "k.weight_part1"], ["k_mm"]),
            oh.make_node("Relu", ["x"], ["other"]),
            oh.make_node("Reshape", ["q_mm", "shape"], ["q_out"]),
            oh.make_node("Transpose", ["q_out"], ["q_turned"]),
            oh.make_node("MatMul", ["q_turned", "k_mm"], ["scores"]),
            oh.make_node("Softmax", ["scores"], ["s"]),
            oh.make_node("Conv", ["s", "o.weight"], ["o_mm"]),
            oh.make_node("Sigmoid", ["o_mm"], ["y-rs"]),
            oh.make_node("Concat", ["other", "o_mm"], ["y"]),
        ]
    )


@pytest.mark.parametrize(
    ("rules", "kept"),
    [
        ({}, []),
        ({"weights": ["o.weight"]}, ["o_mm"]),
        # Its neighbour on the same activation, and what moves their results, go with it.
        ({"weights": ["q.weight"]}, ["q_mm", "k_mm", "q_out", "q_turned"]),
        ({"op_types": ["Softmax", "Relu"]}, ["other", "s", "y"]),
        ({"op_types": ["Softmax"]}, ["s"]),
        ({"values": ["y"]}, ["y-rs", "y"]),
        ({"values": ["q"]}, ["q_mm", "q_out", "q_turned"]),
        ({"weights": ["o.weight"], "op_types": ["Sigmoid"]}, ["o_mm", "y-rs"]),
        ({"weights": ["nothing"], "values": ["x_"]}, []),
    ],
)
def test_the_tensors_that_rules_name(rules: dict[str, list[str]], kept: list[str], job: Job) -> None:
    assert job._float16_tensors(_toolkits_graph().graph, rules) == kept


def test_a_weight_that_no_product_reads_keeps_nothing(job: Job) -> None:
    """A norm's weight, or a table that is looked up."""
    graph = _model([oh.make_node("Mul", ["x", "w"], ["a"]), oh.make_node("Relu", ["a"], ["y"])]).graph
    assert job._float16_tensors(graph, {"weights": ["w"]}) == []
    gathered = _model([oh.make_node("Gather", ["w", "x"], ["a"]), oh.make_node("MatMul", ["a", "v"], ["y"])]).graph
    assert job._float16_tensors(gathered, {"weights": ["w"]}) == []


def test_nodes_without_inputs_are_no_trouble(job: Job) -> None:
    graph = _model([oh.make_node("Constant", [], ["c"], value_float=1.0), oh.make_node("MatMul", ["x", "c"], ["y"])])
    assert job._float16_tensors(graph.graph, {"weights": ["c"], "op_types": ["Constant"]}) == ["c", "y"]


@pytest.mark.parametrize(("name", "stems"), [("y", 1), ("y-rs", 1), ("y_mm", 1), ("y#2", 1), ("y2", 0), ("ay", 0)])
def test_names_that_the_toolkit_makes_of_a_name(name: str, stems: bool, job: Job) -> None:
    assert job._stems_from(name, "y") == bool(stems)


def _request(tmp_path: Path, link: int | None = None, **values: Any) -> dict[str, Any]:
    np.savez(tmp_path / "calibration.npz", np.zeros((3, 1, 4), np.float32))
    return {
        "values": {"config": {"target_platform": "rk3588"}, "load": {}, "build": {}, "link": link, **values},
        "files": {"model": str(tmp_path / "m.onnx"), "calibration": str(tmp_path / "calibration.npz")},
    }


def _called() -> list[str]:
    return [name for name, _, _ in FakeRknn.calls]


def test_rules_are_written_into_the_toolkits_own_file(job: Job, tmp_path: Path) -> None:
    rules = {"weights": ["q.weight"], "op_types": ["Softmax"]}
    outcome = job.build_live(_request(tmp_path, float16=rules))
    # Tensors that the toolkit does not quantize are not its to be named.
    assert outcome["values"]["float16"] == ["q_mm", "k_mm", "q_out", "s"]
    chosen = json.loads((tmp_path / "chosen.quantization.cfg").read_text())
    assert chosen["custom_quantize_layers"] == dict.fromkeys(["q_mm", "k_mm", "q_out", "s"], "float16")
    assert chosen["quantize_parameters"] == PARAMETERS
    assert _called() == [
        "RKNN", "config", "load_onnx", "hybrid_quantization_step1", "release", "RKNN", "config",
        "hybrid_quantization_step2", "export_rknn", "init_runtime",
    ]  # fmt: skip
    assert (outcome["artifacts"], (tmp_path / "model.rknn").read_bytes()) == (["model.rknn"], b"RKNN")


def test_without_rules_it_is_built_at_once(job: Job, tmp_path: Path) -> None:
    assert job.build_live(_request(tmp_path))["values"]["float16"] == []
    assert _called() == ["RKNN", "config", "load_onnx", "build", "export_rknn", "init_runtime"]
    assert FakeRknn.calls[3][2]["do_quantization"] is True
    lines = (tmp_path / "dataset.txt").read_text().splitlines()
    assert lines == [f"calibration/{i}_0.npy" for i in range(3)]


def test_without_samples_nothing_is_quantized(job: Job, tmp_path: Path) -> None:
    request = _request(tmp_path)
    del request["files"]["calibration"]
    job.build_live(request)
    assert FakeRknn.calls[3][2] == {"do_quantization": False}


@pytest.mark.parametrize("step", ["config", "load_onnx", "hybrid_quantization_step2", "export_rknn", "init_runtime"])
def test_a_step_that_returns_a_code_is_a_failure(step: str, job: Job, tmp_path: Path) -> None:
    FakeRknn.codes = {step: -1}
    with pytest.raises(job.StepError, match="returned -1") as raised:
        job.build_live(_request(tmp_path, float16={"op_types": ["Softmax"]}))
    assert raised.value.step == step
    assert (tmp_path / "steps.txt").read_text().splitlines()[-1] == step


def test_it_simulates_what_it_is_sent_until_the_link_ends(job: Job, tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    outcome = job.build_live(_request(tmp_path, link=theirs.detach()))
    thread = threading.Thread(target=outcome["then"], daemon=True)
    thread.start()
    link = Connection(ours.detach())
    assert link.recv_bytes() == b"ready"
    for n in (2, 5):
        array = np.arange(n, dtype=np.float32)
        link.send_bytes(json.dumps({"arrays": [{"dtype": "<f4", "shape": [1, n]}]}).encode())
        link.send_bytes(array.tobytes())
        assert json.loads(link.recv_bytes()) == {"arrays": [{"dtype": "<f4", "shape": [1, n]}]}
        assert np.array_equal(np.frombuffer(link.recv_bytes(), np.float32), 2 * array)
    assert FakeRknn.calls[-1][2]["data_format"] == ["nchw"]
    FakeRknn.codes = {"inference": -1}
    link.send_bytes(json.dumps({"arrays": []}).encode())
    assert "returned no output" in json.loads(link.recv_bytes())["what"]
    link.close()
    thread.join(10)
    assert not thread.is_alive()
    # A long session leaves no list of its steps.
    assert "inference" not in (tmp_path / "steps.txt").read_text()
