from __future__ import annotations

import pytest

from chipwise.check.recipe_name import parse_recipe_name
from chipwise.errors import InputError
from chipwise.quant.recipe import parse_recipe, recipe_names


@pytest.mark.parametrize("name", recipe_names())
def test_a_recipe_stores_weights_as_the_checks_reckon(name: str) -> None:
    recipe, reckoned = parse_recipe(name), parse_recipe_name(name).weight_scheme()
    assert recipe.weight_bits == reckoned.bits
    assert recipe.group_size == reckoned.group_size
    assert recipe.symmetric == reckoned.symmetric
    assert recipe.scheme == name


def test_a_name_without_granularity_leaves_it_open() -> None:
    assert not parse_recipe("w4a16").explicit
    assert parse_recipe("w4a16").group_size == 32
    assert parse_recipe("W4A16_G64 ").group_size == 64
    assert parse_recipe("w4a16_g64").explicit


def test_granularities() -> None:
    channel, tensor = parse_recipe("w8a8_channel"), parse_recipe("w8a8_tensor")
    assert (channel.per_channel, channel.group_size) == (True, None)
    assert (tensor.per_channel, tensor.group_size) == (False, None)
    assert parse_recipe("w8a8").integer_activations
    assert not parse_recipe("w8a16").integer_activations


def test_only_fp32_leaves_everything_as_it_is() -> None:
    assert [name for name in recipe_names() if not parse_recipe(name).quantizes] == ["fp32"]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("int8", "no recipe"),
        ("", "no recipe"),
        ("w8a8_g32", "one scale a channel or tensor"),
        ("w4a16_g48", "no group of 48"),
        ("w4a16_g8", "no group of 8"),
        ("w4a16_g512", "no group of 512"),
        ("fp16_channel", "no scales"),
        ("bf16", "not built"),
        ("w4a4", "not built"),
        ("w8a16i", "not built"),
    ],
)
def test_what_is_no_recipe(name: str, says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        parse_recipe(name)
    assert "\n" not in str(caught.value)
