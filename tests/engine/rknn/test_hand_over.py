from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chipwise.engine.rknn.hand_over import converted, in_order, passes_through, quantized, shaped
from chipwise.errors import EngineError
from chipwise.model.rknn_file import RknnFile, RknnTensor

INT8 = RknnTensor("x", (1, 4), "int8", 0.5, 3)
IMAGE = RknnTensor("x", (1, 3, 2, 2), "int8", 0.5, 3)
HALF = RknnTensor("x", (1, 4), "float16")
IDS = RknnTensor("ids", (1, 4), "int64")
FILE = RknnFile(6, ("rk3588",), "2.5.0", "ONNX", (INT8, IDS), (RknnTensor("y", (2, 3), "int8"),), (), (), 1, 0, 0, 1)


@pytest.mark.parametrize(
    ("tensor", "given_type", "handed"),
    [
        (HALF, "float16", "float16"),
        (HALF, "float32", "float32"),
        (HALF, "float64", "float32"),
        (INT8, "float32", "float32"),
        (INT8, "uint8", "uint8"),
        (INT8, "int8", "float32"),  # values or steps? as floats they are values
        (INT8, "int64", "float32"),
        (HALF, "bool", "float32"),
        (IDS, "int64", "int64"),
        (IDS, "int32", "int64"),
        (replace(IDS, dtype="unknown"), "int64", "int64"),
        (replace(HALF, dtype="unknown (code 9)"), "float64", "float32"),
    ],
)
def test_types(tensor: RknnTensor, given_type: str, handed: str) -> None:
    array = np.array([[0, 1, 1, 0]], given_type)
    ready = converted(tensor, array)
    assert ready.dtype == handed
    assert (ready == array).all()
    assert (ready is array) == (given_type == handed)


def test_gaps_in_memory_are_closed() -> None:
    array = np.arange(8, dtype=np.float32).reshape(2, 4).T
    ready = converted(HALF, array)
    assert ready.flags.c_contiguous
    assert (ready == array).all()


@pytest.mark.parametrize(
    ("tensor", "passes"),
    [
        (INT8, True),
        (IMAGE, False),
        (HALF, False),
        (replace(INT8, scale=None), False),
        (replace(INT8, scale=0.0), False),
        (replace(INT8, zero_point=None), False),
    ],
)
def test_what_the_file_tells_enough_of(tensor: RknnTensor, passes: bool) -> None:
    assert passes_through(tensor) == passes


def test_quantized_to_the_nearest_step_and_cut() -> None:
    found = quantized(INT8, np.array([[0.0, 0.6, -500.0, 500.0]]))
    assert found.dtype == np.int8
    assert found.tolist() == [[3, 4, -128, 127]]


@given(st.lists(st.floats(-62, 62, width=32), min_size=1, max_size=20))
def test_steps_lie_half_a_scale_off_at_most(values: list[float]) -> None:
    array = np.array(values, np.float32)
    back = (quantized(INT8, array).astype(np.float32) - 3) * 0.5
    assert np.abs(back - array).max() <= 0.25


def test_arrays_in_the_models_order() -> None:
    x, ids = np.zeros((1, 4)), np.zeros((1, 4), np.int64)
    assert [id(one) for one in in_order(FILE, {"ids": ids, "x": x}, "f")] == [id(x), id(ids)]


@pytest.mark.parametrize(
    ("feed", "message"),
    [
        ({"x": np.zeros((1, 4))}, "the input 'ids' is missing; give the inputs x, ids"),
        ({"x": np.zeros((1, 4)), "ids": np.zeros((1, 4)), "z": np.zeros(1)}, "no input 'z'"),
        ({"x": np.zeros((1, 5)), "ids": np.zeros((1, 4))}, r"f: the input x is \[1, 5\], the model takes \[1, 4\]"),
        ({"x": np.array([["a"] * 4]), "ids": np.zeros((1, 4))}, "x holds <U1, no numbers"),
    ],
)
def test_wrong_feeds(feed: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(EngineError, match=message):
        in_order(FILE, feed, "f")


def test_a_model_for_several_shapes_takes_others_than_the_first() -> None:
    several = replace(FILE, graphs=3)
    assert in_order(several, {"x": np.zeros((1, 9)), "ids": np.zeros((1, 9))}, "f")[0].shape == (1, 9)
    assert shaped(several, [np.zeros((5, 5))], "f")["y"].shape == (5, 5)


def test_outputs_get_the_shape_of_the_graph() -> None:
    assert shaped(FILE, [np.arange(6).reshape(1, 6)], "f")["y"].tolist() == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(EngineError, match=r"f: the runtime returned \[1, 5\] for y, which is \[2, 3\]"):
        shaped(FILE, [np.zeros((1, 5))], "f")
