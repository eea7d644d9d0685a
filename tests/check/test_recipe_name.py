from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chipwise.check.recipe_name import parse_recipe_name
from chipwise.errors import InputError


@pytest.mark.parametrize(
    ("text", "scheme", "weight", "activation", "granularity", "group"),
    [
        ("fp32", "fp32", 32, 32, None, None),
        ("fp16", "fp16", 16, 16, None, None),
        ("w8a8", "w8a8", 8, 8, None, None),
        ("W8A8_channel", "w8a8", 8, 8, "channel", None),
        ("w8a8_tensor", "w8a8", 8, 8, "tensor", None),
        ("w4a16_g64", "w4a16", 4, 16, "group", 64),
        ("w16a16i_dfp", "w16a16i", 16, 16, None, None),
    ],
)
def test_names(
    text: str, scheme: str, weight: int, activation: int, granularity: str | None, group: int | None
) -> None:
    name = parse_recipe_name(text)
    assert (name.scheme, name.weight_bits, name.activation_bits) == (scheme, weight, activation)
    assert (name.granularity, name.group_size) == (granularity, group)


@pytest.mark.parametrize("text", ["", "w4", "w5a8", "w4a16_64", "int8", "w4a16_g", "w4a16 g64"])
def test_what_is_no_name(text: str) -> None:
    with pytest.raises(InputError, match="no recipe"):
        parse_recipe_name(text)


@given(st.text(max_size=20))
def test_any_text_is_a_name_or_an_input_error(text: str) -> None:
    bits = None
    with suppress(InputError):
        bits = parse_recipe_name(text).weight_bits
    assert bits in (None, 4, 8, 16, 32)


def test_integer_activations() -> None:
    assert [parse_recipe_name(n).integer_activations for n in ("w8a8", "w16a16i", "w4a16", "fp16")] == [
        True,
        True,
        False,
        False,
    ]


def test_a_group_costs_its_scale_and_zero_point() -> None:
    assert parse_recipe_name("w4a16_g32").weight_scheme().bits_per_value == 4 + (32 + 4) / 32
    assert parse_recipe_name("w4a16").weight_scheme().bits_per_value == 4 + (32 + 4) / 32
    assert parse_recipe_name("w4a16_channel").weight_scheme().bits_per_value == 4
    assert parse_recipe_name("w8a8").weight_scheme().bits_per_value == 8
