from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from chipwise.bundle.output_channels import channel_faults, channels_last

Array = npt.NDArray[Any]
INTEGER, FLOAT16 = 0.05, 0.02


def _image(small: float) -> Array:
    """Four channels of 20 x 20, of which channel 2 is small."""
    image = np.random.default_rng(1).standard_normal((1, 4, 20, 20))
    image[:, 2] *= small
    return image


def _steps(values: Array) -> Array:
    """As 8 bits a tensor hold them."""
    scale = (values.max() - values.min()) / 255
    return np.asarray(np.rint(values / scale) * scale)


def test_images_have_their_channels_on_axis_1_and_all_else_on_the_last() -> None:
    assert channels_last(np.zeros((1, 3, 8, 9))).shape == (1, 8, 9, 3)
    assert channels_last(np.zeros((2, 8, 9))).shape == (2, 8, 9)
    assert channels_last(np.float32(1) * np.ones(())).shape == (1, 1)


@pytest.mark.parametrize("tolerance", [INTEGER, FLOAT16])
def test_what_was_expected_has_no_fault(tolerance: float) -> None:
    assert not list(channel_faults(_image(0.01), _image(0.01), tolerance=tolerance))
    assert not list(channel_faults(np.zeros((1, 4)), np.zeros((1, 4)), tolerance=tolerance))
    assert not list(channel_faults(np.zeros((0, 4)), np.zeros((0, 4)), tolerance=tolerance))


@pytest.mark.parametrize(("tolerance", "small"), [(INTEGER, 0.02), (FLOAT16, 0.008)])
def test_a_dead_channel(tolerance: float, small: float) -> None:
    found = _image(small)
    found[:, 2] = 0
    faults = list(channel_faults(_image(small), found, tolerance=tolerance))
    assert [(fault.channel, fault.dead) for fault in faults] == [(2, True)]
    assert str(faults[0]).startswith("is all zeros, up to 0.0")


@pytest.mark.parametrize("small", [1.0, 0.1, 0.02, 0.004])
def test_rounding_to_8_bits_is_no_fault(small: float) -> None:
    expected, noise = _image(small), np.random.default_rng(2).normal(0, 0.02, _image(1).shape)
    assert not list(channel_faults(_steps(expected), _steps(expected + noise), tolerance=INTEGER))


def test_a_whole_channel_a_step_higher_is_no_fault() -> None:
    expected = _image(1.0)
    expected[:, 2] = 0.03
    found = expected.copy()
    found[:, 2] += 0.03
    assert not list(channel_faults(expected, found, tolerance=INTEGER))


@pytest.mark.parametrize("small", [1.0, 0.1, 0.01])
def test_float16_is_no_fault(small: float) -> None:
    expected = _image(small)
    found = expected.astype(np.float16) * (1 + 1e-3) + np.random.default_rng(3).normal(0, 2e-3, expected.shape)
    assert not list(channel_faults(expected, found, tolerance=FLOAT16))


def test_a_channel_of_another_gain() -> None:
    expected = _image(0.2)
    found = expected.copy()
    found[:, 2] *= -1
    (fault,) = channel_faults(expected, found, tolerance=INTEGER)
    assert (fault.channel, fault.dead, str(fault)) == (2, False, "follows what was expected by a factor of -1")


def test_dead_channels_come_first() -> None:
    expected = _image(1.0)
    found = expected.copy()
    found[:, 0] *= 4
    found[:, 3] = 0
    assert [fault.channel for fault in channel_faults(expected, found, tolerance=INTEGER)] == [3, 0]


def test_a_logit_that_rounds_to_zero_is_no_fault() -> None:
    expected = np.array([[10.0, 0.2, -0.3, 4.0]])
    assert not list(channel_faults(expected, np.array([[10.0, 0.0, 0.0, 4.0]]), tolerance=INTEGER))
