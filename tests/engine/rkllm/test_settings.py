from __future__ import annotations

import pytest

from chipwise.engine.rkllm.settings import RkllmSettings
from chipwise.errors import InputError


@pytest.mark.parametrize("context", [32, 4096, 16384])
def test_contexts_that_it_takes(context: int) -> None:
    assert RkllmSettings(context=context, max_new_tokens=1).context == context


@pytest.mark.parametrize(("context", "near"), [(100, 96), (16416, 16384), (0, 32), (-5, 32), (31, 32)])
def test_contexts_that_it_does_not(context: int, near: int) -> None:
    with pytest.raises(InputError, match=rf"take a multiple of 32 of at most 16384, e\.g\. {near}$"):
        RkllmSettings(context=context, max_new_tokens=1)


@pytest.mark.parametrize("count", [0, 65])
def test_answers_that_do_not_fit(count: int) -> None:
    with pytest.raises(InputError, match=f"max_new_tokens is {count}, and the context 64"):
        RkllmSettings(context=64, max_new_tokens=count)
