from __future__ import annotations

import numpy as np
import pytest

from chipwise.check.rules.schemes import recipe_not_built, scheme, scheme_channels
from chipwise.errors import InputError
from chipwise.quant.recipe import parse_recipe
from chipwise.target.catalog import load_target
from chipwise.target.scheme_support import SchemeSupport
from tests.check.graphs import SOURCE, given_decoder, given_graph, graph, target, with_initializers

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


@pytest.mark.parametrize(
    ("channels", "weight", "group", "hits"),
    [(24, (8, 24, 3, 3), 1, ["24 input channels"]), (32, (8, 32, 1, 1), 1, []), (24, (24, 1, 3, 3), 24, [])],
    ids=["broken", "whole", "depthwise"],
)
def test_channels_that_break_the_toolchain(channels: int, weight: tuple[int, ...], group: int, hits: list[str]) -> None:
    sizes = ",".join(map(str, weight))
    body = (
        f"g (float[1,{channels},8,8] x, float[{sizes}] w) => (float[1,{weight[0]},H,W] y)"
        f" {{ y = Conv<group={group}>(x, w) }}"
    )
    model = with_initializers(graph(body), w=np.zeros(weight, np.float32))
    rk3562 = load_target("rk3562")
    found = list(scheme_channels(given_graph(model, rk3562, "w8a16")))
    assert [(one.severity, one.measured) for one in found] == [("error", one) for one in hits]
    assert list(scheme_channels(given_graph(model, rk3562, "w8a8"))) == []
    assert list(scheme_channels(given_graph(model, rk3562))) == []
