"""Settings that no model has are named, whatever their size."""

from __future__ import annotations

import pytest

from chipwise.errors import ModelFormatError
from chipwise.model.importer.fields import MOST_LAYERS, Fields


@pytest.mark.parametrize("value", [0, -1, 2**31, 10**400, True, 1.5, "3", None, [3]])
def test_no_whole_number(value: object) -> None:
    with pytest.raises(ModelFormatError, match=r"n is .*, expected a whole number above 0.*; correct it, or download"):
        Fields({"n": value}, "config.json").integer("n")


def test_absurd_layers_are_refused_before_anything_is_made_of_them() -> None:
    with pytest.raises(ModelFormatError, match="at most 4096"):
        Fields({"n": 2_000_000_000}, "config.json").integer("n", most=MOST_LAYERS)
    assert Fields({"n": 61}, "config.json").integer("n", most=MOST_LAYERS) == 61


@pytest.mark.parametrize("value", [10**400, float("inf"), float("nan"), True, "1", None])
def test_no_number(value: object) -> None:
    with pytest.raises(ModelFormatError, match="expected a number"):
        Fields({"x": value}, "config.json").number("x")
    with pytest.raises(ModelFormatError, match="expected a list of 1 numbers"):
        Fields({"x": [value]}, "config.json").numbers("x", 1)


@pytest.mark.parametrize("value", [0, -1e-5])
def test_an_epsilon_is_above_zero(value: float) -> None:
    with pytest.raises(ModelFormatError, match="expected a number above 0"):
        Fields({"eps": value}, "config.json").positive("eps")
    assert Fields({"eps": 1e-5}, "config.json").positive("eps") == 1e-5
