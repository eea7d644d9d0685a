from __future__ import annotations

import pytest

from chipwise.check.rules.schemes import recipe_not_built, scheme
from chipwise.errors import InputError
from chipwise.quant.recipe import parse_recipe
from chipwise.target.catalog import load_target
from chipwise.target.scheme_support import SchemeSupport
from tests.check.graphs import SOURCE, given_decoder, target

TAKES = target(
    schemes=(
        SchemeSupport("w8a8", "rknn", SOURCE, weights=("tensor", "channel")),
        SchemeSupport("w4a16", "rkllm", SOURCE, weights=("group",), group_sizes=(32, 64)),
    )
)


@pytest.mark.parametrize("recipe", ["w8a8", "w8a8_channel", "w4a16", "w4a16_g64"])
def test_taken(recipe: str) -> None:
    assert list(scheme(given_decoder(TAKES, recipe))) == []


@pytest.mark.parametrize(
    ("recipe", "limit"),
    [("fp16", "w4a16, w8a8"), ("w8a8_g32", "w8a8 (rknn): tensor, channel"), ("w4a16_g128", "w4a16 (rkllm): g32, g64")],
)
def test_refused(recipe: str, limit: str) -> None:
    (one,) = scheme(given_decoder(TAKES, recipe))
    assert (one.severity, one.measured, one.limit) == ("error", recipe, limit)


def test_w4a16_on_rk3588_quotes_the_toolkit() -> None:
    (one,) = scheme(given_decoder(load_target("rk3588"), "w4a16"))
    assert "not support in 'rk3588'" in one.message
    assert list(scheme(given_decoder(load_target("rk3576"), "w4a16"))) == []


def test_no_recipe_no_question() -> None:
    assert list(scheme(given_decoder(TAKES))) == []
    assert list(scheme(given_decoder(target(), "w4a16"))) == []


@pytest.mark.parametrize("recipe", ["w16a16i", "w8a8_g128", "w4a16_g512", "w4a16_g24", "fp16_channel", "bf16"])
def test_what_the_build_does_not_make_is_said_before_it(recipe: str) -> None:
    (one,) = recipe_not_built(given_decoder(TAKES, recipe))
    assert (one.severity, one.measured) == ("error", recipe)
    with pytest.raises(InputError):
        parse_recipe(recipe)


@pytest.mark.parametrize("recipe", ["fp32", "fp16", "w8a8", "w8a8_tensor", "w8a16", "w4a16", "w4a16_g64"])
def test_what_the_build_makes(recipe: str) -> None:
    assert list(recipe_not_built(given_decoder(TAKES, recipe))) == []
    assert parse_recipe(recipe).name == recipe
