from __future__ import annotations

from typing import Any

import pytest

from chipwise.engine.rkllm.sampling import RkllmSampling
from chipwise.errors import InputError


def test_greedy_unless_told_otherwise() -> None:
    struct = RkllmSampling().to_struct()
    assert (struct.top_k, struct.top_p, struct.temperature, struct.repeat_penalty, struct.mirostat) == (1, 1, 1, 1, 0)


def test_all_of_it_reaches_the_runtime() -> None:
    struct = RkllmSampling(40, 0.5, 0.25, 1.5, 0.125, 0.75).to_struct()
    assert [getattr(struct, name) for name, _ in struct._fields_][:6] == [40, 0.5, 0.25, 1.5, 0.125, 0.75]


@pytest.mark.parametrize(
    "wrong",
    [
        {"top_k": 0},
        {"top_p": 0.0},
        {"top_p": 1.5},
        {"temperature": 0.0},
        {"temperature": float("nan")},
        {"top_k": True},
    ],
)
def test_numbers_that_mean_nothing(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="sampling: "):
        RkllmSampling(**wrong)
