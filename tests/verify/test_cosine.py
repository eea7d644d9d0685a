from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chipwise.verify.cosine import ChannelCosine


def test_by_hand() -> None:
    total = ChannelCosine(2)
    total.add(np.array([[1.0, 3.0], [0.0, 4.0]]), np.array([[1.0, 3.0], [1.0, 4.0]]))
    np.testing.assert_allclose(total.channels(), [1 / math.sqrt(2), 1.0])
    assert total.whole() == pytest.approx(26 / math.sqrt(26 * 27))


def test_the_whole_tensor_hides_a_dead_channel() -> None:
    rng = np.random.default_rng(0)
    reference = rng.normal(0, 1, (100, 64))
    reference[:, 0] *= 200  # an outlier channel leads the sum
    candidate = reference.copy()
    candidate[:, 7] = rng.normal(0, 1, 100)
    total = ChannelCosine(64)
    total.add(reference, candidate)
    line = total.result("layers.0.output")
    assert line.whole > 0.9999
    assert line.min < 0.4
    assert line.worst_channel == 7
    assert line.name == "layers.0.output"


def test_zero_channels() -> None:
    total = ChannelCosine(3)
    total.add(np.array([[0.0, 1.0, 0.0]]), np.array([[0.0, 0.0, 2.0]]))
    assert total.channels().tolist() == [1.0, 0.0, 0.0]
    silent = ChannelCosine(2)
    silent.add(np.zeros((4, 2)), np.zeros((4, 2)))
    assert silent.whole() == 1.0


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_channel_that_is_not_finite_is_the_worst(bad: float) -> None:
    total = ChannelCosine(3)
    total.add(np.ones((2, 3)), np.array([[1.0, bad, 1.0], [1.0, 1.0, -1.0]]))
    line = total.result("x")
    assert line.worst_channel == 1
    assert math.isnan(line.min)
    assert math.isnan(line.mean)
    assert math.isnan(line.whole)


@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.floats(1e-20, 1e15))
def test_scale_does_not_matter_and_parts_add_up(seed: int, cut: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    reference, candidate = rng.normal(0, 1, (2, 31, 5)).astype(np.float32)
    scaled = (candidate * np.float32(scale)).astype(np.float32)
    whole, parts = ChannelCosine(5), ChannelCosine(5)
    whole.add(reference, candidate)
    for rows in (slice(0, cut), slice(cut, None)):
        parts.add(reference[rows], scaled[rows])
    np.testing.assert_allclose(parts.channels(), whole.channels(), rtol=1e-5, atol=1e-6)
    assert parts.whole() == pytest.approx(whole.whole(), rel=1e-5, abs=1e-6)


def test_leading_axes_are_tokens() -> None:
    values = np.arange(24.0).reshape(2, 3, 4)
    one, other = ChannelCosine(4), ChannelCosine(4)
    one.add(values, values[::-1])
    other.add(values.reshape(6, 4), values[::-1].reshape(6, 4))
    np.testing.assert_array_equal(one.channels(), other.channels())


def test_a_gain_is_seen_where_the_cosine_is_blind() -> None:
    values = np.arange(1.0, 7.0).reshape(3, 2)
    total, dead, made_up = ChannelCosine(2), ChannelCosine(2), ChannelCosine(2)
    total.add(values, values / 2)
    assert (total.whole(), total.gain()) == (pytest.approx(1.0), pytest.approx(0.5))
    dead.add(values * 0, values * 0)
    made_up.add(values * 0, values)
    assert (dead.gain(), made_up.gain()) == (1.0, math.inf)
