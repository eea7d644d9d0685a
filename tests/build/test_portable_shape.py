from __future__ import annotations

import pytest

from chipwise.build.portable_shape import PortableShape
from chipwise.errors import InputError
from chipwise.target import load_target

RK3588, EDGE_TPU = load_target("rk3588"), load_target("edge-tpu")


def test_prefill_takes_most_prompts_and_the_cache_every_conversation() -> None:
    prompts = [20] * 96 + [300] * 4
    contexts = [n + 24 for n in prompts]
    shape = PortableShape.choose(RK3588, prompts, contexts, limit=8192, asked=False)
    assert shape == PortableShape(tokens=32, context=352)


def test_a_context_the_user_asked_for_is_held() -> None:
    shape = PortableShape.choose(RK3588, [20], [44], limit=512, asked=True)
    assert shape == PortableShape(tokens=32, context=512)


def test_a_limit_that_is_no_multiple_is_lowered() -> None:
    assert PortableShape.choose(RK3588, [70], [100], limit=100, asked=False).context == 96
    assert PortableShape.choose(EDGE_TPU, [70], [100], limit=100, asked=True).context == 96


def test_prefill_is_no_longer_than_the_cache() -> None:
    assert PortableShape.choose(RK3588, [500] * 9, [500] * 9, limit=64, asked=False) == PortableShape(64, 64)


def test_a_limit_below_one_multiple() -> None:
    with pytest.raises(InputError, match="a context of 20 tokens is no multiple of the 32 that rk3588 takes"):
        PortableShape.choose(RK3588, [10], [20], limit=20, asked=True)
