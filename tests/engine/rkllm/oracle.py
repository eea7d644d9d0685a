"""What the fake runtime answers, computed again."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

VOCAB = 50


def next_token(held: Sequence[int]) -> int:
    total = 17
    for token in held:
        total = (total * 1103515245 + token + 12345) & 0xFFFFFFFF
    return (total >> 16) % VOCAB


def answer(prompt: Sequence[int], count: int) -> list[int]:
    held = list(prompt)
    for _ in range(count):
        held.append(next_token(held))
    return held[len(prompt) :]


def logits(held: Sequence[int]) -> npt.NDArray[np.float32]:
    row = (np.arange(VOCAB) - next_token(held)) % VOCAB
    return (-0.5 * row).astype(np.float32)


def prompt_that_answers(*wanted: int) -> list[int]:
    """A prompt whose answer begins with these tokens."""
    prompts = itertools.product(range(VOCAB), repeat=3)
    return list(next(prompt for prompt in prompts if answer(prompt, len(wanted)) == list(wanted)))
