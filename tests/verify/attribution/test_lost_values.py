from __future__ import annotations

import numpy as np
import onnx
from onnx import helper as oh

from chipwise.report.attribution import TensorCount
from chipwise.verify.attribution.lost_values import LostValues
from tests.quant.small_graphs import graph

SCALE = {"scale": np.array(0.1, np.float32), "zero": np.array(-128, np.int8)}


def test_what_is_clipped_and_what_is_not_finite_is_counted_a_tensor() -> None:
    nodes = [
        oh.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        oh.make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
        oh.make_node("Log", ["d"], ["y"]),
    ]
    lost = LostValues(graph(nodes, {"x": ["n"]}, {"y": ["n"]}, SCALE), "prefill", threads=1)
    # From 0 to 25.5: the ends themselves are not clipped, and zero is what a softmax has most of.
    lost.run({"x": np.array([0.0, 0.0, 25.5, 26.0, -1.0], np.float32)})
    lost.run({"x": np.array([3.0, 99.0], np.float32)})
    assert lost.result() == [TensorCount("x", "prefill", 7, 0, 3), TensorCount("y", "prefill", 7, 3, 0)]


def test_the_end_of_float16() -> None:
    nodes = [
        oh.make_node("Cast", ["x"], ["h"], to=onnx.TensorProto.FLOAT16),
        oh.make_node("Mul", ["h", "h"], ["y"]),
    ]
    model = graph(nodes, {"x": ["n"]}, {"y": ["n"]}, {}, types={"y": onnx.TensorProto.FLOAT16})
    lost = LostValues(model, "decode", threads=1)
    lost.run({"x": np.array([1.0, 65504.0, 300.0], np.float32)})
    assert lost.result() == [TensorCount("h", "decode", 3, 0, 1), TensorCount("y", "decode", 3, 2, 0)]


def test_weights_are_no_activations() -> None:
    nodes = [
        oh.make_node("DequantizeLinear", ["w", "scale", "zero"], ["spoilt"]),
        oh.make_node("Add", ["x", "spoilt"], ["y"]),
    ]
    constants = {**SCALE, "w": np.array([1, 2], np.int8), "scale": np.array(np.inf, np.float32)}
    lost = LostValues(graph(nodes, {"x": [2]}, {"y": [2]}, constants), "prefill", threads=1)
    lost.run({"x": np.zeros(2, np.float32)})
    assert [one.name for one in lost.result()] == ["y"]
