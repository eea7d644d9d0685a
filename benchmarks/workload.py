"""Workload: what every contestant runs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Workload:
    """One prompt and what is decoded after it.

    Attributes:
        prompt_tokens: Tokens of the prompt.
        new_tokens: Tokens decoded after the first.
        context: Tokens the KV cache holds.
        threads: Threads of each engine.
        seed: Seed of the prompt's token ids. They are drawn evenly, so that no engine gains from repetition.
    """

    prompt_tokens: int = 128
    new_tokens: int = 64
    context: int = 512
    threads: int = 2
    seed: int = 0

    def prompt(self) -> list[int]:
        """The prompt's token ids; those below 100 are special in many vocabularies."""
        ids: list[int] = np.random.default_rng(self.seed).integers(100, 40_000, self.prompt_tokens).tolist()
        return ids

    @property
    def mean_position(self) -> float:
        """Tokens in the KV cache in the middle of decoding."""
        return self.prompt_tokens + self.new_tokens / 2
