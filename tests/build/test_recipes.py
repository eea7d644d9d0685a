from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from chipwise.build.options import BuildOptions
from chipwise.build.recipes import recipes_to_try
from chipwise.errors import InputError
from chipwise.target import Target, load_target

AUTO = ("w4a16", "w8a8", "w8a16", "fp16")


def _tried(target: Target, recipe: str = "auto", auto: tuple[str, ...] = AUTO) -> list[str]:
    return [one.name for one in recipes_to_try(BuildOptions("m", "t", Path("o"), recipe), target, auto)]


def test_auto_tries_what_the_target_takes_in_order() -> None:
    assert _tried(load_target("rk3588")) == ["w8a8", "fp16"]
    assert _tried(load_target("rk3576")) == ["w4a16", "w8a8", "fp16"]
    assert _tried(load_target("rk3562")) == ["w8a8", "w8a16", "fp16"]


def test_the_one_that_was_named() -> None:
    assert _tried(load_target("rk3588"), "w8a8_tensor") == ["w8a8_tensor"]
    with pytest.raises(InputError, match="rk3588 does not take the recipe w4a16"):
        _tried(load_target("rk3588"), "w4a16")


def test_a_target_nobody_has_described_gets_all() -> None:
    known = load_target("rk3588")
    blank = Target(replace(known.chip, constraints=replace(known.constraints, schemes=())))
    assert _tried(blank) == list(AUTO)


def test_nothing_fits() -> None:
    with pytest.raises(InputError, match=r"rk3588 takes none of the recipes that are built \(w4a16\)"):
        _tried(load_target("rk3588"), auto=("w4a16",))
