from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from onnx import helper as oh

from chipwise.model.scheme import TensorScheme
from chipwise.quant.int_weights import IntGrid, integers, quantize_int_weights
from tests.quant.small_graphs import cosine, graph, linear, run, run_as_served

_WEIGHTS = arrays(np.float32, array_shapes(min_dims=2, max_dims=4, max_side=6), elements=st.floats(-1e6, 1e6, width=32))


@settings(max_examples=60)
@given(weight=_WEIGHTS, data=st.data(), bits=st.sampled_from([4, 8]), per_channel=st.booleans(), spare=st.booleans())
def test_every_weight_comes_back_within_half_a_step(
    weight: np.ndarray, data: st.DataObject, bits: int, per_channel: bool, spare: bool
) -> None:
    axis = data.draw(st.integers(0, weight.ndim - 1))
    grid = IntGrid(bits, per_channel, spare)
    q, scale = integers(weight, axis, grid)
    assert np.abs(q.astype(int)).max() <= grid.top
    assert (scale > 0).all()
    steps = scale.reshape([-1 if i == axis else 1 for i in range(weight.ndim)]) if per_channel else scale
    # Numbers below the smallest scale become zeros.
    assert (np.abs(q * steps - weight) <= 0.501 * steps).all()


@given(q=arrays(np.int8, (3, 5), elements=st.integers(-127, 127)), scale=st.floats(2**-20, 2**20, width=32))
def test_numbers_on_a_grid_come_back_exactly(q: np.ndarray, scale: float) -> None:
    q[:, 0] = 127
    weight = q.astype(np.float32) * np.float32(scale)
    found, scales = integers(weight, 0, IntGrid())
    assert np.array_equal(found, q)
    assert np.allclose(found * scales[:, None], weight, rtol=1e-6)


def test_zeros_and_tiny_numbers_need_no_scale() -> None:
    q, scale = integers(np.array([[0, 0], [1e-44, -1e-44], [1, -2]], np.float32), 0, IntGrid())
    assert scale[:2].tolist() == [1, 1]
    assert q[:2].tolist() == [[0, 0], [0, 0]]
    assert q[2].tolist() == [64, -127]


def test_a_spare_bit_halves_the_integers() -> None:
    q, _ = integers(np.array([[1.0, -1.0]], np.float32), 0, IntGrid(8, spare_bit=True))
    assert q.tolist() == [[63, -63]]


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("per_channel", [True, False])
def test_a_product_is_that_of_the_integers(bits: int, per_channel: bool) -> None:
    rng = np.random.default_rng(0)
    weight, x = rng.normal(size=(24, 6)).astype(np.float32), rng.normal(size=(3, 24)).astype(np.float32)
    model = linear(weight)
    schemes = quantize_int_weights(model, IntGrid(bits, per_channel))
    q, scale = integers(weight, 1, IntGrid(bits, per_channel))
    assert np.allclose(run(model, {"x": x})["y"], x @ (q * scale), atol=1e-5)
    dtype = "int8" if bits == 8 else "int4"
    assert schemes == {"w": TensorScheme(bits, dtype, None, 1 if per_channel else None, True, "float32")}
    assert "w" not in model.graph.initializers


def test_gemm_has_its_outputs_on_either_axis() -> None:
    rng = np.random.default_rng(0)
    weight, x = rng.normal(size=(5, 8)).astype(np.float32), rng.normal(size=(2, 8)).astype(np.float32)
    for name, stored, attributes in (("rows", weight, {"transB": 1}), ("columns", weight.T, {})):
        node = oh.make_node("Gemm", ["x", "w"], ["y"], **attributes)
        model = graph([node], {"x": [2, 8]}, {"y": [2, 5]}, {"w": np.ascontiguousarray(stored)})
        schemes = quantize_int_weights(model, IntGrid())
        assert schemes["w"].axis == (0 if name == "rows" else 1)
        assert cosine(run(model, {"x": x})["y"], x @ weight.T) > 0.9999


def _depthwise(weight: np.ndarray) -> object:
    node = oh.make_node("Conv", ["x", "w"], ["y"], group=weight.shape[0], pads=[1, 1, 1, 1])
    channels = weight.shape[0]
    return graph([node], {"x": [1, channels, 8, 8]}, {"y": [1, channels, 8, 8]}, {"w": weight})


def test_a_depthwise_convolution_needs_a_scale_a_channel() -> None:
    rng = np.random.default_rng(0)
    sizes = np.logspace(-3, 0, 32, dtype=np.float32)
    weight = rng.normal(size=(32, 1, 3, 3)).astype(np.float32) * sizes[:, None, None, None]
    # What a channel's weights are too small, its inputs are too large.
    x = rng.normal(size=(1, 32, 8, 8)).astype(np.float32) / sizes[None, :, None, None]
    wanted = run(_depthwise(weight), {"x": x})["y"]
    found = {}
    for per_channel in (True, False):
        model = _depthwise(weight)
        quantize_int_weights(model, IntGrid(8, per_channel))
        found[per_channel] = cosine(run(model, {"x": x})["y"], wanted)
    assert found[True] > 0.9999
    assert found[False] < 0.9


def test_operators_that_take_one_scale_get_one() -> None:
    weight = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
    schemes = quantize_int_weights(linear(weight), IntGrid(), per_channel_ops=["Conv"])
    assert schemes["w"].axis is None


def test_a_bias_of_rank_one_is_left_alone() -> None:
    weight, bias = np.full((8, 2), 1e-7, np.float32), np.array([5, -4.5], np.float32)
    model = linear(weight, bias)
    assert list(quantize_int_weights(model, IntGrid())) == ["w"]
    assert np.allclose(run(model, {"x": np.ones((1, 8), np.float32)})["y"], bias, atol=1e-5)


def test_a_product_of_two_activations_and_a_weight_that_can_be_fed_stay() -> None:
    node = oh.make_node("MatMul", ["x", "z"], ["y"])
    model = graph([node], {"x": [2, 3], "z": [3, 2]}, {"y": [2, 2]}, {})
    assert quantize_int_weights(model, IntGrid()) == {}


def test_a_shared_weight_is_stored_once() -> None:
    nodes = [oh.make_node("MatMul", ["x", "w"], ["a"]), oh.make_node("MatMul", ["a", "w"], ["y"])]
    weight = np.random.default_rng(0).normal(size=(6, 6)).astype(np.float32)
    model = graph(nodes, {"x": [2, 6]}, {"y": [2, 6]}, {"w": weight})
    quantize_int_weights(model, IntGrid())
    assert sorted(model.graph.initializers) == ["w.packed", "w.scales", "w.zero_points"]
    assert [node.op_type for node in model.graph].count("DequantizeLinear") == 1


def test_int4_survives_the_runtimes_own_optimisation_when_pairs_are_left_alone() -> None:
    rng = np.random.default_rng(0)
    weight, x = rng.normal(size=(72, 16)).astype(np.float32), rng.normal(size=(3, 72)).astype(np.float32)
    model = linear(weight)
    quantize_int_weights(model, IntGrid(4))
    q, scale = integers(weight, 1, IntGrid(4))
    outputs, ran = run_as_served(model, {"x": x}, fuse_qdq=False)
    assert np.allclose(outputs["y"], x @ (q * scale), atol=1e-4)
    assert "MatMulNBits" not in ran
