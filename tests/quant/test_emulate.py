from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx import helper as oh

from chipwise.errors import RewriteError
from chipwise.model.decoder import GraphSpec
from chipwise.model.model import Model
from chipwise.quant.affine import Affine, affine
from chipwise.quant.calibration import ValueRange, calibrate
from chipwise.quant.emulate import emulate_activations, fused_tails, stored_origins, stored_values
from chipwise.quant.int_weights import IntGrid, integers, quantize_int_weights
from chipwise.rewrite.decoder_feeds import prompt_feed
from chipwise.target import load_target
from tests.quant.small_graphs import cosine, decoder, graph, linear, run, run_as_served

RNG = np.random.default_rng(5)


def _emulated(model: ir.Model, feeds: list[dict[str, np.ndarray]]) -> dict[str, Affine]:
    return emulate_activations(model, calibrate(model, feeds, stored_values(model)))


def test_a_linear_layer_computes_what_a_chip_would() -> None:
    """int8 inputs and weights, int32 sums started at the bias, one rounding to the output's scale."""
    weight, bias = RNG.normal(size=(64, 16)).astype(np.float32), RNG.normal(size=16).astype(np.float32)
    x = RNG.normal(size=(5, 64)).astype(np.float32)
    model = linear(weight, bias)
    scales = _emulated(model, [{"x": x}])
    quantize_int_weights(model, IntGrid())
    assert sorted(scales) == ["x", "y"]

    q_weight, weight_scale = integers(weight, 1, IntGrid())
    q_x = np.clip(np.rint(x / scales["x"].scale) + scales["x"].zero_point, -128, 127).astype(np.int32)
    total = (q_x - scales["x"].zero_point) @ q_weight.astype(np.int32)
    y = total * (scales["x"].scale * weight_scale) + bias
    q_y = np.clip(np.rint(y / scales["y"].scale) + scales["y"].zero_point, -128, 127)
    wanted = (q_y - scales["y"].zero_point) * scales["y"].scale

    for found in (run(model, {"x": x})["y"], run_as_served(model, {"x": x}, fuse_qdq=False)[0]["y"]):
        # A sum that ends half way between two steps may go either way in float32.
        steps = np.abs(found - wanted) / scales["y"].scale
        assert (steps < 1e-3).mean() > 0.98
        assert steps.max() < 1.001
    assert cosine(wanted, x @ weight + bias) > 0.999


def test_every_value_between_operators_is_stored_and_no_other() -> None:
    nodes = [
        oh.make_node("MatMul", ["x", "w"], ["a"]),
        oh.make_node("Reshape", ["a", "shape"], ["moved"]),
        oh.make_node("Transpose", ["moved"], ["turned"], perm=[1, 0]),
        oh.make_node("Softmax", ["turned"], ["s"]),
        oh.make_node("Add", ["s", "table"], ["y"]),
        oh.make_node("ArgMax", ["y"], ["best"], axis=1, keepdims=0),
    ]
    constants = {
        "w": RNG.normal(size=(4, 6)).astype(np.float32),
        "shape": np.array([4, 3]),
        "table": np.linspace(-9, 3, 12, dtype=np.float32).reshape(3, 4),
    }
    outputs = {"y": [3, 4], "best": [3]}
    model = graph(nodes, {"x": [2, 4]}, outputs, constants, types={"best": 7})
    assert stored_values(model) == ["x", "a", "s", "y"]
    assert stored_origins(model) == {"moved": "a", "turned": "a"}
    x = RNG.normal(size=(2, 4)).astype(np.float32)
    scales = _emulated(model, [{"x": x}])
    table = affine(-9, 3)
    found = run(model, {"x": x})["y"]
    on_grid = found / scales["y"].scale
    assert np.allclose(on_grid, np.rint(on_grid), atol=1e-3)
    sources = {node.inputs[0].name for node in model.graph if node.op_type == "QuantizeLinear"}
    assert sources == {"x", "a.float", "s.float", "y.float", "table"}
    assert table.round_trip(constants["table"]).min() == pytest.approx(-9, abs=0.05)


def test_names_stay_where_values_are_read() -> None:
    model = linear(RNG.normal(size=(4, 3)).astype(np.float32))
    _emulated(model, [{"x": RNG.normal(size=(2, 4)).astype(np.float32)}])
    assert [value.name for value in model.graph.outputs] == ["y"]
    assert model.graph.outputs[0].producer().op_type == "DequantizeLinear"


def test_a_value_without_a_range() -> None:
    model = linear(RNG.normal(size=(4, 3)).astype(np.float32))
    with pytest.raises(RewriteError, match=r"1 values have no calibrated range, e\.g\. y"):
        emulate_activations(model, {"x": ValueRange(-1, 1)})


@pytest.mark.parametrize(("factor", "at_least", "below"), [(1, 0.9999, 1.0), (30, 0.9, 0.999), (200, 0.0, 0.9)])
def test_outlier_channels_cost_a_per_tensor_scale_its_steps(factor: float, at_least: float, below: float) -> None:
    """One channel times 30 or 200: cosine 0.984 and 0.333 in the report that this is taken from."""
    x = RNG.normal(size=(64, 256)).astype(np.float32)
    x[:, 7] *= factor
    weight = RNG.normal(size=(256, 32)).astype(np.float32)
    # The product takes the outlier back, as a norm's weight does.
    weight[7] /= factor**2
    wanted = x @ weight
    model = linear(weight)
    emulate_activations(model, {"x": ValueRange(float(x.min()), float(x.max())), "y": ValueRange(-80, 80)})
    assert at_least <= cosine(run(model, {"x": x})["y"], wanted) <= below


def test_calibrated_on_another_domain() -> None:
    """Calibrated at a spread of 1, used at 8: what lies beyond is clipped."""
    weight, x = RNG.normal(size=(64, 32)).astype(np.float32), RNG.normal(size=(64, 64)).astype(np.float32)
    wanted = 8 * x @ weight
    found = {}
    for spread in (1, 8):
        model = linear(weight)
        _emulated(model, [{"x": x * np.float32(spread)}])
        found[spread] = cosine(run(model, {"x": 8 * x})["y"], wanted)
    assert found[8] > 0.9998
    assert found[1] < 0.9


def test_a_mask_of_minus_ten_thousand_leaves_the_scores_no_steps() -> None:
    scores = RNG.normal(size=(16, 16)).astype(np.float32) * 3
    found = {}
    for mask in (-30.0, -1e4):
        bias = np.triu(np.full((16, 16), mask, np.float32), 1)
        nodes = [oh.make_node("Add", ["x", "mask"], ["masked"]), oh.make_node("Softmax", ["masked"], ["y"])]
        model = graph(nodes, {"x": [16, 16]}, {"y": [16, 16]}, {"mask": bias})
        wanted = run(model, {"x": scores})["y"]
        _emulated(model, [{"x": scores}])
        found[mask] = cosine(run(model, {"x": scores})["y"], wanted)
    assert found[-30.0] > 0.99
    assert found[-1e4] < 0.9


@pytest.mark.parametrize("name", ["llama", "gemma"])
def test_a_decoder_keeps_its_answer(name: str, request: pytest.FixtureRequest) -> None:
    source: Model = request.getfixturevalue(name)
    model = decoder(source, GraphSpec("prefill", 48))
    window = source.config.sliding_window if source.config else None
    feeds = [prompt_feed(model.graph, RNG.integers(3, 60, 20).tolist(), window=window) for _ in range(3)]
    wanted = run(model, feeds[0])["logits"]
    values = stored_values(model)
    _emulated(model, feeds)
    quantize_int_weights(model, IntGrid())
    found = run(model, feeds[0])["logits"]
    assert found.shape == wanted.shape
    assert not np.array_equal(found, wanted)
    assert cosine(found, wanted) > 0.98
    computed = {value.name for node in model.graph for value in node.outputs}
    assert "logits.float" in computed
    # Inside a norm nothing is stored: its squares would need a scale of their own.
    inside = [node.outputs[0].name for node in model.graph if node.op_type in ("Pow", "ReduceMean", "Sqrt")]
    assert inside
    assert not set(inside) & set(values)


def test_what_a_compiler_fuses_is_data_of_the_target() -> None:
    assert {"Gelu", "Add"} <= set(fused_tails(load_target("rk3566")))
    assert fused_tails(load_target("ethos-u65")) == ()
    nodes = [oh.make_node("MatMul", ["x", "w"], ["p"]), oh.make_node("Add", ["p", "x"], ["y"])]
    model = graph(nodes, {"x": [2, 8]}, {"y": [2, 8]}, {"w": np.ones((8, 8), np.float32)})
    assert stored_values(model) == ["x", "p", "y"]
    assert stored_values(model, fused_tails(load_target("rk3588"))) == ["x", "y"]
