from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from onnx import helper as oh
from onnx import numpy_helper as nh

from chipwise.quant.blockwise import BlockwiseWeight, pack, quantize_blockwise, search_groups

FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
RNG = np.random.default_rng(1)


def _matrix(rows: int, columns: int) -> np.ndarray:
    return RNG.normal(size=(rows, columns)).astype(np.float32)


def _parts(weight: BlockwiseWeight) -> dict[str, np.ndarray]:
    parts = {"packed": weight.packed, "scales": weight.scales}
    return parts if weight.zero_points is None else {**parts, "zero_points": weight.zero_points}


def _by_onnxruntime(weight: BlockwiseWeight, x: np.ndarray) -> np.ndarray:
    """The product as MatMulNBits computes it with float32 activations."""
    parts = _parts(weight)
    attributes: dict[str, Any] = {
        "N": len(weight.packed), "K": weight.columns, "bits": weight.bits, "block_size": weight.group_size,
        "accuracy_level": 1,
    }  # fmt: skip
    node = oh.make_node("MatMulNBits", ["x", *parts], ["y"], domain="com.microsoft", **attributes)
    info = [oh.make_tensor_value_info(name, FLOAT, None) for name in "xy"]
    graph = oh.make_graph([node], "g", info[:1], info[1:], [nh.from_array(a, n) for n, a in parts.items()])
    model = oh.make_model(
        graph, opset_imports=[oh.make_opsetid("", 17), oh.make_opsetid("com.microsoft", 1)], ir_version=10
    )
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize(("columns", "group_size"), [(64, 32), (64, 64), (96, 32), (80, 32), (48, 16)])
def test_the_layout_is_the_runtimes(bits: int, symmetric: bool, columns: int, group_size: int) -> None:
    weight = quantize_blockwise(_matrix(24, columns), bits=bits, group_size=group_size, symmetric=symmetric)
    x = _matrix(5, columns)
    dense = weight.dequantize()
    assert dense.shape == (24, columns)
    assert np.allclose(_by_onnxruntime(weight, x), x @ dense.T, atol=1e-4)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("symmetric", [True, False])
def test_numbers_on_a_grid_come_back_exactly(bits: int, symmetric: bool) -> None:
    top = (1 << bits) - 1
    stored = RNG.integers(0, top + 1, size=(6, 4, 32))
    stored[..., 0], stored[..., 1] = 0, top  # the whole range is used
    zero = np.full((6, 4, 1), 1 << (bits - 1)) if symmetric else RNG.integers(1, top, size=(6, 4, 1))
    scale = 2.0 ** RNG.integers(-8, 8, size=(6, 4, 1))
    matrix = ((stored - zero) * scale).astype(np.float32).reshape(6, 128)
    weight = quantize_blockwise(matrix, bits=bits, group_size=32, symmetric=symmetric)
    assert np.allclose(weight.dequantize(), matrix, rtol=1e-6)


@settings(max_examples=60)
@given(
    matrix=arrays(np.float32, (2, 48), elements=st.floats(-1e4, 1e4, width=32)),
    bits=st.sampled_from([4, 8]),
    symmetric=st.booleans(),
)
def test_no_weight_is_off_by_more_than_the_search_may_clip(matrix: np.ndarray, bits: int, symmetric: bool) -> None:
    weight = quantize_blockwise(matrix, bits=bits, group_size=16, symmetric=symmetric)
    error = np.abs(weight.dequantize() - matrix).reshape(2, 3, 16)
    groups = matrix.reshape(2, 3, 16)
    span = np.maximum(groups.max(axis=2), 0) - np.minimum(groups.min(axis=2), 0)
    reach = np.abs(groups).max(axis=2)
    # Rounding costs half a step. Symmetric scales have no value at +2^(bits-1), and 4 bits may clip up to 30 %.
    step = (2 * reach if symmetric else span) / ((1 << bits) - 1)
    clipped = 0.3 * reach if bits == 4 else step
    assert (error <= (1.01 * step + clipped)[..., None] + 1e-30).all()


def test_zeros_stay_zeros() -> None:
    for symmetric in (True, False):
        weight = quantize_blockwise(np.zeros((2, 32), np.float32), bits=4, group_size=32, symmetric=symmetric)
        assert not weight.dequantize().any()
        assert np.isfinite(weight.scales).all()


def test_smaller_groups_and_zero_points_lose_less() -> None:
    matrix = _matrix(64, 256) + 0.3

    def error(group_size: int, symmetric: bool) -> float:
        weight = quantize_blockwise(matrix, bits=4, group_size=group_size, symmetric=symmetric)
        return float(np.square(weight.dequantize() - matrix).mean())

    assert error(32, False) < error(128, False) < error(256, False)
    assert error(32, False) < error(32, True)


def test_the_search_minds_what_an_error_costs() -> None:
    block = _matrix(8, 32)[:, None]
    importance = np.ones((1, 32), np.float32)
    importance[0, 5] = 1e4
    errors = []
    for weights in (None, importance):
        q, scale, zero = search_groups(block, 4, False, weights)
        dense = (q.astype(np.float32) - zero[..., None]) * scale[..., None]
        errors.append(np.square(dense - block)[:, 0, 5].sum())
    assert errors[1] <= errors[0]


@given(values=arrays(np.uint8, st.tuples(st.integers(1, 3), st.integers(1, 9)), elements=st.integers(0, 15)))
def test_two_values_a_byte_the_first_in_the_low_half(values: np.ndarray) -> None:
    packed = pack(values, 4)
    assert packed.shape == (len(values), -(-values.shape[1] // 2))
    assert np.array_equal(packed & 15, values[:, 0::2])
    assert np.array_equal((packed >> 4)[:, : values.shape[1] // 2], values[:, 1::2])


def test_without_a_search_groups_must_be_symmetric() -> None:
    with pytest.raises(ValueError, match="only symmetric groups"):
        quantize_blockwise(np.ones((1, 32), np.float32), bits=4, group_size=32, symmetric=False, searched=False)
