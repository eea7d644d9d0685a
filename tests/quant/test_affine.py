from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chipwise.quant.affine import affine

_NUMBERS = st.floats(-1e30, 1e30)


@given(low=_NUMBERS, high=_NUMBERS, signed=st.booleans())
def test_any_range_gives_a_scale_that_brings_zero_back(low: float, high: float, signed: bool) -> None:
    found = affine(min(low, high), max(low, high), signed=signed)
    info = np.iinfo(found.dtype)
    assert np.isfinite(found.scale)
    assert found.scale > 0
    assert info.min <= found.zero_point <= info.max
    assert found.round_trip(np.zeros(1, np.float32))[0] == 0


@given(low=st.floats(-1e6, 0), high=st.floats(0, 1e6), share=st.floats(0, 1), signed=st.booleans())
def test_what_lies_in_the_range_comes_back_within_a_step(low: float, high: float, share: float, signed: bool) -> None:
    found = affine(low, high, signed=signed)
    value = np.array([low + share * (high - low)], np.float32)
    # Half a step, and half another for the zero_point, which is rounded too.
    assert abs(found.round_trip(value) - value)[0] <= 1.001 * found.scale + 1e-30


def test_a_range_of_one_sign_still_holds_zero() -> None:
    assert affine(5.0, 10.0).scale == pytest.approx(10 / 255)
    assert affine(5.0, 10.0).zero_point == -128
    assert affine(-10.0, -5.0, signed=False).zero_point == 255


def test_a_value_that_never_moved() -> None:
    assert affine(0.0, 0.0).round_trip(np.zeros(3, np.float32)).tolist() == [0, 0, 0]
    assert affine(0.0, 1e-44).scale == 1
