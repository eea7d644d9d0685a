from __future__ import annotations

from collections.abc import Sequence

import pytest

from chipwise.engine.rkllm.prompt import run_input
from chipwise.engine.rkllm.sampling import RkllmSampling
from chipwise.errors import InputError


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ("", "the prompt is empty"),
        ("a\0b", "holds a NUL character"),
        ([], "no tokens"),
        ([1, -1], "negative"),
        ([1 << 31], "above 2147483647"),
        ([1] * 25, "25 tokens and 8 more do not fit a context of 32; shorten"),
    ],
)
def test_what_the_runtime_is_not_given(prompt: str | Sequence[int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        run_input(prompt, context=32, max_new_tokens=8, sampling=RkllmSampling())


@pytest.mark.parametrize("count", [0, -1, 33])
def test_answers_of_no_length(count: int) -> None:
    with pytest.raises(InputError, match="max_new_tokens is"):
        run_input("a", context=32, max_new_tokens=count, sampling=RkllmSampling())
