from __future__ import annotations

from dataclasses import replace

import pytest

from chipwise.errors import InputError
from chipwise.quant.fit import fit_recipe, taken
from chipwise.target import Target, load_target


def test_an_open_granularity_becomes_one_that_the_target_takes() -> None:
    assert fit_recipe("w4a16", load_target("rk3576")).group_size == 32
    rk3562 = fit_recipe("w8a16", load_target("rk3562"))
    assert (rk3562.group_size, rk3562.per_channel) == (None, True)
    assert fit_recipe("w8a8", load_target("rk3588")).per_channel


def test_a_granularity_that_was_asked_for_is_kept_or_refused() -> None:
    assert fit_recipe("w4a16_g128", load_target("rk3576")).group_size == 128
    assert not fit_recipe("w8a8_tensor", load_target("rk3588")).per_channel
    with pytest.raises(InputError, match="w4a16_g16") as caught:
        fit_recipe("w4a16_g16", load_target("rk3576"))
    assert "w4a16 (channel, g32, g64, g128, g256)" in str(caught.value)


def test_a_scheme_the_chip_has_not_is_refused_with_what_it_has() -> None:
    with pytest.raises(InputError, match="rk3588 does not take the recipe w4a16") as caught:
        fit_recipe("w4a16", load_target("rk3588"))
    assert caught.value.exit_code == 2
    assert "w8a8 (tensor, channel" in str(caught.value)
    assert "fp16" in str(caught.value)


def test_a_target_nobody_has_written_down_takes_everything() -> None:
    known = load_target("rk3588")
    blank = Target(replace(known.chip, constraints=replace(known.constraints, schemes=())))
    assert fit_recipe("w4a16_g16", blank).group_size == 16


def test_granularities_that_are_unknown_are_not_refused() -> None:
    assert fit_recipe("w8a8", load_target("edge-tpu")).per_channel


def test_taken_names_each_scheme_once() -> None:
    words = taken(load_target("rk3576"))
    assert words.count("w8a8") == 1
    assert words.count("w4a16") == 1
