from __future__ import annotations

import pytest

from chipwise.check.rules.schemes import scheme
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
