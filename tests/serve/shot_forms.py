"""Bundles of small graphs and encoders that answer differently, for onnxruntime and for an engine of the test's."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chipwise.bundle import BundleWriter, EngineSpec, Manifest, ModelInfo, keep_graph_test
from chipwise.bundle.manifest import GRAPH, TEST_INPUTS, TEST_OUTPUTS
from chipwise.engine.graph_session import Arrays, TensorSpec
from tests.serve.fakes import VOCAB, byte_tokenizer

WIDTH = 6
TEXTS = {"input_ids": ["b", "s"], "attention_mask": ["b", "s"]}


def table(salt: int) -> np.ndarray:
    """An encoder's vectors by token."""
    return np.random.default_rng(salt).normal(size=(VOCAB, WIDTH)).astype(np.float32)


def vector(text: str, salt: int) -> np.ndarray:
    """What an encoder says of a text: the mean over its bytes."""
    return np.asarray(table(salt)[list(text.encode())].mean(axis=0))


class ScalingGraph:
    """Multiplies its one input, or looks up tokens; runs wait for a gate that the test holds."""

    def __init__(self, options: Mapping[str, Any], engine: ScalingEngine) -> None:
        self.options, self._engine = options, engine
        self.closed = False
        self.runs = 0
        if "salt" in options:
            self.inputs = tuple(TensorSpec(name, (None, None), np.dtype(np.int64)) for name in TEXTS)
        else:
            self.inputs = (TensorSpec(options.get("input", "x"), (None, 3), np.dtype(np.float32)),)
        self.input_names = tuple(spec.name for spec in self.inputs)
        self.output_names = ("last_hidden_state",) if "salt" in options else ("y",)

    def run(self, feed: Arrays) -> dict[str, np.ndarray]:
        assert not self.closed, "it runs what is closed"
        self.runs += 1
        self._engine.running.release()
        gate = self._engine.gates.get(str(self.options.get("gate")))
        assert gate is None or gate.wait(20)
        if "salt" in self.options:
            return {"last_hidden_state": table(self.options["salt"])[feed["input_ids"]]}
        return {"y": feed[self.input_names[0]] * np.float32(self.options["scale"])}

    def close(self) -> None:
        self.closed = True


class ScalingEngine:
    """Its options: ``scale`` and ``input`` of a graph, or ``salt`` of an encoder; ``gate``, by a name in ``gates``."""

    name = "scaling"

    def __init__(self) -> None:
        self.opened: list[ScalingGraph] = []
        self.gates: dict[str, threading.Event] = {}
        self.running = threading.Semaphore(0)

    def open_graph(self, path: Path, *, options: Mapping[str, Any]) -> ScalingGraph:
        del path
        self.opened.append(ScalingGraph(options, self))
        return self.opened[-1]


def write_graph(
    out: Path,
    scale: float = 1.0,
    *,
    name: str = "net",
    input: str = "x",
    onnxruntime: bool = False,
    broken: bool = False,
    engine: EngineSpec | None = None,
    **options: Any,
) -> Path:
    """A bundle of a graph from ``[n, 3]`` to ``y``, ``scale`` times as much; if broken, its self-test cannot pass."""
    x = np.array([[1.0, 2.0, 3.0]], np.float32)
    test = ({input: x}, {"y": x * np.float32(scale + broken)})
    own = {"scale": scale, "input": input, **options}
    spec = engine or (EngineSpec("onnxruntime", {"threads": 1}) if onnxruntime else EngineSpec("scaling", own))
    graph = _scaling_onnx(input, scale) if onnxruntime else repr((input, scale)).encode()
    return _write(out, name, graph, spec, test if engine is None else None, {"inputs": {input: ["n", 3]}})


def write_encoder(
    out: Path, salt: int = 0, *, name: str = "encoder", onnxruntime: bool = False, broken: bool = False, **options: Any
) -> Path:
    """A bundle of an encoder of bytes, of vectors by ``salt``."""
    ids = np.array([[1, 2, 3]], np.int64)
    test = ({"input_ids": ids, "attention_mask": np.ones_like(ids)}, {"last_hidden_state": table(salt + broken)[ids]})
    own = EngineSpec("onnxruntime", {"threads": 1}) if onnxruntime else EngineSpec("scaling", {"salt": salt, **options})
    config = {"inputs": TEXTS, "outputs": {"last_hidden_state": ["b", "s", WIDTH]}, "max_positions": 64}
    graph = _table_onnx(salt) if onnxruntime else str(salt).encode()
    return _write(out, name, graph, own, test, config, tokenizer=True)


def _write(
    out: Path,
    name: str,
    graph: bytes,
    engine: EngineSpec,
    test: tuple[Arrays, Arrays] | None,
    config: dict[str, Any],
    *,
    tokenizer: bool = False,
) -> Path:
    with BundleWriter(out, overwrite=True) as writer:
        writer.add_bytes(GRAPH, graph, ".onnx")
        kept = None
        if test is not None:
            kept, fed, gave = keep_graph_test(*test, tolerance=1e-5)
            writer.add_bytes(TEST_INPUTS, fed, ".npz")
            writer.add_bytes(TEST_OUTPUTS, gave, ".npz")
        if tokenizer:
            writer.add_tokenizer(byte_tokenizer())
        return writer.commit(
            Manifest(name=name, target="host", engine=engine, model=ModelInfo(config, "onnx", name), graph_test=kept)
        )


def _scaling_onnx(input: str, scale: float) -> bytes:
    onnx, oh, nh = _onnx()
    nodes = [oh.make_node("Mul", [input, "scale"], ["y"])]
    constants = [nh.from_array(np.array([scale], np.float32), "scale")]
    inputs = [oh.make_tensor_value_info(input, onnx.TensorProto.FLOAT, ["n", 3])]
    y = oh.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", 3])
    return _model(oh, oh.make_graph(nodes, "net", inputs, [y], constants))


def _table_onnx(salt: int) -> bytes:
    onnx, oh, nh = _onnx()
    inputs = [oh.make_tensor_value_info(one, onnx.TensorProto.INT64, shape) for one, shape in TEXTS.items()]
    hidden = oh.make_tensor_value_info("last_hidden_state", onnx.TensorProto.FLOAT, ["b", "s", WIDTH])
    nodes = [oh.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])]
    return _model(oh, oh.make_graph(nodes, "encoder", inputs, [hidden], [nh.from_array(table(salt), "table")]))


def _onnx() -> tuple[Any, Any, Any]:
    """onnx, its helper and that for arrays; boards have none of them."""
    return tuple(pytest.importorskip(name) for name in ("onnx", "onnx.helper", "onnx.numpy_helper"))


def _model(oh: Any, graph: Any) -> bytes:
    model = oh.make_model(graph, opset_imports=[oh.make_opsetid("", 17)], ir_version=9)
    return bytes(model.SerializeToString())
