from __future__ import annotations

import pytest

from chipwise.serve.schedule.chunks import ChunkRule
from chipwise.serve.schedule.step_cost import StepCost


def sizes(prompt: int, most: int, rule: ChunkRule | None = None) -> list[int]:
    """The steps that a prompt is fed in."""
    steps: list[int] = []
    while (left := prompt - sum(steps)) > 0:
        steps.append(
            (rule or ChunkRule()).size(
                left, most, StepCost(), starts=not steps, alone=True, alert=False, emergency=False
            )
        )
    return steps


@pytest.mark.parametrize(
    ("prompt", "most", "steps"),
    [
        (1, 512, [1]),
        (2, 512, [2]),
        (128, 512, [128]),
        (129, 512, [127, 2]),
        (130, 512, [130]),
        (257, 512, [255, 2]),
        (513, 512, [511, 2]),
        (641, 512, [512, 127, 2]),
        (300, 129, [128, 128, 44]),
    ],
)
def test_how_a_prompt_is_cut(prompt: int, most: int, steps: list[int]) -> None:
    assert sizes(prompt, most) == steps


def test_no_token_is_on_its_own_in_a_block_or_a_step() -> None:
    for prompt in range(2, 1200):
        for most in (16, 33, 64, 100, 129, 512):
            steps = sizes(prompt, most)
            assert sum(steps) == prompt
            assert all(step > 1 and step % 128 != 1 for step in steps), (prompt, most, steps)


def test_what_a_graph_takes_whole_is_not_cut() -> None:
    assert sizes(129, 512, ChunkRule(whole_tokens=256)) == [129]
