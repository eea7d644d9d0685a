from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from chipwise.errors import InputError, ToolchainError
from chipwise.toolchain import Environment, Job, run_job
from chipwise.toolchain.doctor import examine
from chipwise.toolchain.rknn import RKNN
from chipwise.toolchain.rknn_build import rknn_build_job

CONFIG = {"target_platform": "rk3588"}
RNG = np.random.default_rng(1)


def save(
    path: Path, nodes: list[onnx.NodeProto], inputs: dict, outputs: dict, constants: dict, opset: int = 17
) -> Path:
    """A graph of float32 inputs and outputs of the shapes given."""

    def values(shapes: dict) -> list[onnx.ValueInfoProto]:
        return [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]

    tensors = [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "g", values(inputs), values(outputs), tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), path)
    return path


def conv(path: Path) -> Path:
    """An image whose height, width and channels all differ, and a second input of rank 2."""
    weight = RNG.standard_normal((4, 3, 3, 3), dtype=np.float32) / 5
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["y"]),
        helper.make_node("MatMul", ["a", "m"], ["z"]),
    ]
    shapes = {"x": [1, 3, 10, 20], "a": [2, 32]}
    constants = {"w": weight, "m": RNG.standard_normal((32, 16), dtype=np.float32)}
    return save(path, nodes, shapes, {"y": [1, 4, 10, 20], "z": [2, 16]}, constants)


def feeds(samples: int) -> list[np.ndarray]:
    return [RNG.standard_normal((samples, *shape), dtype=np.float32) for shape in ((1, 3, 10, 20), (2, 32))]


def reference(model: Path, stacks: list[np.ndarray]) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    runs = [session.run(None, {"x": x, "a": a}) for x, a in zip(*stacks, strict=True)]
    return [np.stack(one) for one in zip(*runs, strict=True)]


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.vdot(a, b) / np.linalg.norm(a) / np.linalg.norm(b))


def test_steps_are_in_the_order_that_works() -> None:
    assert RKNN.steps[0].no_deps
    assert [str(pin) for pin in RKNN.steps[-1].pins] == ["setuptools<81"]
    assert RKNN.licence.proprietary


@pytest.mark.parametrize("stacks", [[], [np.zeros((0, 1))], [np.zeros((2, 1)), np.zeros((3, 1))]])
def test_samples_must_be_there_and_as_many_for_each_input(stacks: list[np.ndarray]) -> None:
    with pytest.raises(InputError, match=r"inputs hold .* samples"):
        rknn_build_job(Path("m.onnx"), config=CONFIG, inputs=stacks)


@pytest.mark.slow
def test_the_installed_toolkit_is_sound(rknn: Environment) -> None:
    assert examine(rknn) == []


@pytest.mark.slow
def test_builds_and_simulates_in_float16(rknn: Environment, tmp_path: Path) -> None:
    model, stacks = conv(tmp_path / "m.onnx"), feeds(3)
    heard: list[str] = []
    job = rknn_build_job(model, config=CONFIG, inputs=stacks, timeout_s=120)
    with run_job(rknn, job, on_step=heard.append) as result:
        assert result.artifacts["model.rknn"].read_bytes()[:4] == b"RKNN"
        with np.load(result.artifacts["outputs.npz"]) as file:
            found = [file["arr_0"], file["arr_1"]]
        log = result.stdout.read_text("utf-8", "replace")
    for got, want in zip(found, reference(model, stacks), strict=True):
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, atol=0.03)
    assert "Network Layer Information Table" in log
    assert result.peak_bytes > 200e6
    assert heard[-3:] == ["inference 1/3", "inference 2/3", "inference 3/3"]
    assert {"config", "load_onnx", "build", "export_rknn", "init_runtime", "inference"} == set(
        result.values["duration_s"]
    )


@pytest.mark.slow
def test_quantizes_with_samples_from_a_folder_with_blanks(
    rknn: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "a folder with blanks"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    model, stacks = conv(tmp_path / "m.onnx"), feeds(3)
    config = {**CONFIG, "quantized_dtype": "w8a8", "quantized_algorithm": "normal"}
    job = rknn_build_job(model, config=config, calibration=feeds(8), inputs=stacks, timeout_s=120)
    with run_job(rknn, job) as result, np.load(result.artifacts["outputs.npz"]) as file:
        found = [file["arr_0"], file["arr_1"]]
    for got, want in zip(found, reference(model, stacks), strict=True):
        assert 0.99 < cosine(got, want) < 0.999999
    assert os.listdir(scratch) == []


@pytest.mark.slow
def test_the_toolkits_three_kinds_of_failure_end_in_one_line(rknn: Environment, tmp_path: Path) -> None:
    model = conv(tmp_path / "m.onnx")
    refused = {**CONFIG, "quantized_dtype": "w4a16"}
    with pytest.raises(ToolchainError, match=r"rknn build_simulate \w+: failed: .*w4a16"):
        _run(rknn, rknn_build_job(model, config=refused, timeout_s=120))
    node = [helper.make_node("Relu", ["x"], ["y"])]
    late = save(tmp_path / "late.onnx", node, {"x": [1, 4]}, {"y": [1, 4]}, {}, opset=20)
    with pytest.raises(ToolchainError, match=r"rknn build_simulate load_onnx: .*[Oo]pset 20"):
        _run(rknn, rknn_build_job(late, config=CONFIG, timeout_s=120))
    (tmp_path / "cut.onnx").write_bytes(model.read_bytes()[:100])
    with pytest.raises(ToolchainError, match="rknn build_simulate load_onnx: "):
        _run(rknn, rknn_build_job(tmp_path / "cut.onnx", config=CONFIG, timeout_s=120))
    with pytest.raises(ToolchainError, match=r"rknn build_simulate config: .*no_such_option"):
        _run(rknn, rknn_build_job(model, config={**CONFIG, "no_such_option": 1}, timeout_s=120))


def _uint8(path: Path) -> Path:
    graph = helper.make_graph(
        [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, [1, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.slow
def test_an_abort_of_the_toolkit_is_our_error(rknn: Environment, tmp_path: Path) -> None:
    with pytest.raises(
        ToolchainError,
        match=r"rknn build_simulate build: .*ended by SIGABRT, status 134; its log ends: .*Not Support Dtype",
    ):
        _run(rknn, rknn_build_job(_uint8(tmp_path / "u.onnx"), config=CONFIG, timeout_s=120))


def _run(rknn: Environment, job: Job) -> None:
    with run_job(rknn, job):
        pass
