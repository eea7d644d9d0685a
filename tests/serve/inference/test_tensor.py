from __future__ import annotations

import base64

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from chipwise.engine.graph_session import TensorSpec
from chipwise.errors import RequestError
from chipwise.serve.inference.feed_buffer import FeedBuffer
from chipwise.serve.inference.tensor import Given
from chipwise.serve.inference.tensor_types import DTYPES

ARRAYS = st.sampled_from(sorted(DTYPES)).flatmap(
    lambda name: hnp.arrays(
        DTYPES[name],
        hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4),
        elements={"allow_nan": False, "allow_infinity": False} if DTYPES[name].kind == "f" else None,
    )
)


def name_of(array: np.ndarray) -> str:
    return next(name for name, dtype in DTYPES.items() if dtype == array.dtype)


@given(ARRAYS)
def test_every_form_of_a_tensor_is_the_same_array(array: np.ndarray) -> None:
    spec = TensorSpec("x", tuple(None if i % 2 else size for i, size in enumerate(array.shape)), array.dtype)
    raw, buffer = array.tobytes(), FeedBuffer()
    for data in (array.tolist(), array.reshape(-1).tolist(), raw, base64.b64encode(raw).decode()):
        made = Given("x", array.shape, name_of(array), data, "inputs[0]").checked(spec).filled(buffer)
        assert made.dtype == array.dtype
        assert np.array_equal(made, array)


REFUSED = [
    ((2, 3), "INT64", [1] * 6, "datatype: the input 'x' takes FP32, not INT64"),
    ((2, 4), "FP32", [1.0] * 8, r"shape: is \[2, 4\], the input 'x' takes \[-1, 3\]"),
    ((6,), "FP32", [1.0] * 6, r"shape: is \[6\]"),
    ((2, 3), "FP32", [1.0] * 5, r"data: holds 5 numbers, the shape \[2, 3\] needs 6"),
    ((2, 3), "FP32", [[1.0] * 3, [1.0] * 2], "data: holds 5 numbers"),
    ((2, 3), "FP32", [[1.0] * 3, 1.0, 1.0, 1.0], "which is no FP32"),
    ((2, 3), "FP32", [1.0] * 5 + ["a"], "data: holds 'a', which is no FP32"),
    ((2, 3), "FP32", [1.0] * 5 + [True], "data: holds 'True'"),
    ((2, 3), "FP32", b"1234", "data: holds 4 bytes, the shape .* needs 24"),
    ((2, 3), "FP32", "AAAA", "data: holds 3 bytes"),
    ((1 << 40, 3), "FP32", [1.0], "data: holds 1 numbers"),
]


@pytest.mark.parametrize(("shape", "datatype", "data", "words"), REFUSED)
def test_what_does_not_fit_is_refused_before_anything_is_allocated(
    shape: tuple[int, ...], datatype: str, data: object, words: str
) -> None:
    spec = TensorSpec("x", (None, 3), np.dtype(np.float32))
    with pytest.raises(RequestError, match=words):
        Given("x", shape, datatype, data, "inputs[0]").checked(spec)


@pytest.mark.parametrize(("datatype", "data"), [("UINT8", [256]), ("INT8", [-129]), ("UINT64", [-1]), ("BOOL", [1])])
def test_numbers_outside_their_type_are_refused(datatype: str, data: list[object]) -> None:
    with pytest.raises(RequestError, match=r"inputs\[2\].data"):
        Given("x", (1,), datatype, data, "inputs[2]").checked(TensorSpec("x", (1,), None))


def test_text_that_is_no_base64_is_refused_when_it_is_read() -> None:
    given = Given("x", (3,), "UINT8", "A*AA", "inputs[0]").checked(TensorSpec("x", (3,), None))
    with pytest.raises(RequestError, match="no base64"):
        given.filled(FeedBuffer())


def test_a_buffer_gives_the_same_array_for_the_same_shape() -> None:
    buffer, dtype = FeedBuffer(), np.dtype(np.float32)
    first = buffer.array("x", (2, 3), dtype)
    assert buffer.array("x", (2, 3), dtype) is first
    assert buffer.array("y", (2, 3), dtype) is not first
    assert buffer.array("x", (2, 2), dtype) is not first
