"""Small graphs, and a small decoder with everything that a pass may meet."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
from onnx import helper as oh
from onnx import numpy_helper as nh

from chipwise.check.infer import infer_types
from chipwise.model.decoder import GraphSpec, build_decoder
from chipwise.model.model import Model
from chipwise.rewrite.edit import inline_functions
from chipwise.rewrite.runner import Runner

FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64

Arrays = Mapping[str, np.ndarray]


def graph(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int | str]],
    outputs: Mapping[str, Sequence[int | str]],
    constants: Arrays,
    *,
    types: Mapping[str, int] | None = None,
    opset: int = 17,
) -> ir.Model:
    """A model of nodes made with ``onnx.helper``."""
    known = types or {}
    made = oh.make_graph(
        list(nodes),
        "small",
        [oh.make_tensor_value_info(name, known.get(name, FLOAT), shape) for name, shape in inputs.items()],
        [oh.make_tensor_value_info(name, known.get(name, FLOAT), shape) for name, shape in outputs.items()],
        [nh.from_array(array, name) for name, array in constants.items()],
    )
    imports = [oh.make_opsetid("", opset), oh.make_opsetid("com.microsoft", 1)]
    model = ir.from_proto(oh.make_model(made, opset_imports=imports, ir_version=10))
    infer_types(model)
    return model


def linear(weight: np.ndarray, bias: np.ndarray | None = None, rows: int | str = "rows") -> ir.Model:
    """``y = x @ weight + bias``."""
    nodes = [oh.make_node("MatMul", ["x", "w"], ["y" if bias is None else "product"], name="linear")]
    constants = {"w": weight.astype(np.float32)}
    if bias is not None:
        nodes.append(oh.make_node("Add", ["product", "b"], ["y"]))
        constants["b"] = bias.astype(np.float32)
    return graph(nodes, {"x": [rows, weight.shape[0]]}, {"y": [rows, weight.shape[1]]}, constants)


def run(model: ir.Model, feed: Arrays) -> dict[str, np.ndarray]:
    """The outputs of a model as it is written, without any optimisation."""
    return Runner(model, threads=1).run(feed)


def run_as_served(model: ir.Model, feed: Arrays, *, fuse_qdq: bool = True) -> tuple[dict[str, np.ndarray], list[str]]:
    """The outputs as ONNX Runtime computes them by default, and the operators that its profile shows."""
    with tempfile.TemporaryDirectory() as folder:
        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(folder) / "profile")
        options.intra_op_num_threads = 1
        if not fuse_qdq:
            options.add_session_config_entry("session.disable_quant_qdq", "1")
        content = ir.to_proto(model).SerializeToString()
        session = ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        names = [value.name for value in session.get_outputs()]
        outputs = dict(zip(names, session.run(names, dict(feed)), strict=True))
        events: list[dict[str, Any]] = json.loads(Path(session.end_profiling()).read_text())
    ran = [event["args"]["op_name"] for event in events if event.get("cat") == "Node" and "op_name" in event["args"]]
    return outputs, ran


def decoder(model: Model, spec: GraphSpec) -> ir.Model:
    """A decoder's graph with its functions inlined and its types known."""
    made = build_decoder(model.config, model.weights, spec)
    inline_functions(made)
    infer_types(made)
    return made


def cosine(one: np.ndarray, other: np.ndarray) -> float:
    a, b = one.ravel().astype(np.float64), other.ravel().astype(np.float64)
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))
