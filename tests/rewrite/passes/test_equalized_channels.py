from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper as oh

from chipwise.rewrite.channel_sites import channel_sites
from chipwise.rewrite.pass_ import RewriteContext
from chipwise.rewrite.passes.equalized_channels import EqualizedChannels
from chipwise.rewrite.pipeline import run_passes
from tests.quant.small_graphs import graph

RNG = np.random.default_rng(3)


def draw(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def gated(act: str = "Sigmoid") -> ir.Model:
    nodes = [
        oh.make_node("LayerNormalization", ["x", "scale", "shift"], ["normed"], axis=-1, epsilon=1e-5),
        oh.make_node("MatMul", ["normed", "wg"], ["gate"]),
        oh.make_node("Gemm", ["normed", "wu", "bu"], ["up"], transB=1),
        oh.make_node(act, ["gate"], ["act"]),
        oh.make_node("Mul", ["act", "up"], ["product"]),
        oh.make_node("MatMul", ["product", "wd"], ["y"]),
    ]
    constants = {
        "scale": draw(8), "shift": draw(8), "wg": draw(8, 12), "wu": draw(12, 8), "bu": draw(12), "wd": draw(12, 4)
    }  # fmt: skip
    return graph(nodes, {"x": [6, 8]}, {"y": [6, 4]}, constants)


def attention(repeated: bool = False) -> ir.Model:
    """Two heads of four; with ``repeated`` one head of keys and values serves both."""
    heads = 1 if repeated else 2
    shape, kv = np.array([1, 5, 2, 4]), np.array([1, 5, heads, 4])
    nodes = []
    for name, size in (("q", "shape"), ("k", "kv"), ("v", "kv")):
        nodes += [
            oh.make_node("MatMul", ["x", f"w{name}"], [name]),
            oh.make_node("Reshape", [name, size], [f"{name}.split"]),
            oh.make_node("Transpose", [f"{name}.split"], [f"{name}.heads"], perm=[0, 2, 1, 3]),
        ]
    nodes += [
        oh.make_node("Transpose", ["k.heads"], ["k.turned"], perm=[0, 1, 3, 2]),
        oh.make_node("MatMul", ["q.heads", "k.turned"], ["scores"]),
        oh.make_node("Softmax", ["scores"], ["weights"], axis=-1),
        oh.make_node("MatMul", ["weights", "v.heads"], ["mixed"]),
        oh.make_node("Transpose", ["mixed"], ["mixed.t"], perm=[0, 2, 1, 3]),
        oh.make_node("Reshape", ["mixed.t", "flat"], ["joined"]),
        oh.make_node("MatMul", ["joined", "wo"], ["y"]),
    ]
    constants = {
        "shape": shape, "kv": kv, "flat": np.array([1, 5, 8]), "wq": draw(8, 8), "wk": draw(8, 4 * heads),
        "wv": draw(8, 4 * heads), "wo": draw(8, 8),
    }  # fmt: skip
    return graph(nodes, {"x": [1, 5, 8]}, {"y": [1, 5, 8]}, constants)


def convolutions(group: int = 1) -> ir.Model:
    nodes = [
        oh.make_node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1]),
        oh.make_node("Relu", ["c1"], ["r1"]),
        oh.make_node("Conv", ["r1", "w2"], ["y"], group=group),
    ]
    constants = {"w1": draw(6, 3, 3, 3), "b1": draw(6), "w2": draw(6, 1 if group == 6 else 6, 1, 1)}
    return graph(nodes, {"x": [1, 3, 4, 4]}, {"y": [1, 6, 4, 4]}, constants)


def sites(model: ir.Model) -> dict[str, int]:
    return {site.name: site.channels for site in channel_sites(model.graph)}


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (gated(), {"normed": 8, "product": 12}),
        (attention(), {"k.turned": 8, "joined": 8}),
        (convolutions(), {"r1": 6}),
        (convolutions(group=6), {"r1": 6}),
        (attention(repeated=True), {}),
    ],
)
def test_sites_are_found_and_scaling_them_changes_nothing(model: ir.Model, expected: dict[str, int]) -> None:
    assert sites(model) == expected
    factors = {name: np.exp(2 * RNG.standard_normal(channels)) for name, channels in expected.items()}
    result = run_passes(model, [EqualizedChannels(factors)], RewriteContext())
    (step,) = result.steps
    assert (step.modified, step.dropped) == (bool(expected), False)
    # The weights are others: what a value is now, times its factors, is what it was.
    changed = {name for name, value in result.model.graph.initializers.items() if name.startswith("chipwise_const")}
    assert bool(changed) == bool(expected)


def test_a_value_that_something_else_reads_is_no_site() -> None:
    model = gated()
    by_name = {value.name: value for node in model.graph for value in node.outputs}
    model.graph.outputs.append(by_name["normed"])
    assert sites(model) == {"product": 12}
    model.graph.outputs.append(by_name["up"])
    assert sites(model) == {}


def test_a_nonlinear_gate_is_never_scaled() -> None:
    """Both sides of the product could be scaled where the activation is homogeneous, none where both are not."""
    assert sites(gated("Relu")) == {"normed": 8, "product": 12}
    model = gated()
    up = next(node for node in model.graph if node.outputs[0].name == "product")
    squashed = ir.node("Tanh", [up.inputs[1]])
    squashed.outputs[0].type, squashed.outputs[0].shape = up.inputs[1].type, up.inputs[1].shape
    model.graph.insert_before(up, squashed)
    up.replace_input_with(1, squashed.outputs[0])
    assert sites(model) == {"normed": 8}


@pytest.mark.parametrize("wrong", [np.ones(7), np.zeros(8), -np.ones(8), np.full(8, np.nan)])
def test_factors_that_are_none_are_refused(wrong: np.ndarray) -> None:
    (step,) = run_passes(gated(), [EqualizedChannels({"normed": wrong})], RewriteContext()).steps
    assert step.dropped
    assert "8 positive numbers" in step.notes[0]


def test_a_weight_that_two_products_share_is_scaled_for_the_one_alone() -> None:
    nodes = [
        oh.make_node("MatMul", ["x", "w"], ["a"]),
        oh.make_node("MatMul", ["a", "w"], ["b"]),
        oh.make_node("Tanh", ["b"], ["y"]),
    ]
    model = graph(nodes, {"x": [4, 6]}, {"y": [4, 6]}, {"w": draw(6, 6)})
    assert sites(model) == {"a": 6}
    (step,) = run_passes(model, [EqualizedChannels({"a": np.geomspace(0.1, 10, 6)})], RewriteContext()).steps
    assert step.modified
    assert not step.dropped


def test_opset_18_and_onnx_checks_hold() -> None:
    model = gated()
    result = run_passes(model, [EqualizedChannels({"normed": np.geomspace(0.1, 10, 8)})], RewriteContext())
    onnx.checker.check_model(ir.to_proto(result.model))
