"""Runs a chipwise bundle the way `chipwise serve` opens it: every byte checked, the self-test run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from protocol import Job, serve

from chipwise.bundle import open_bundle
from chipwise.engine import Batch


class Chipwise:
    """A bundle's session with one slot."""

    def __init__(self, job: Job) -> None:
        self._session = open_bundle(Path(job.model)).open_session(1, job.context, threads=job.threads)
        self._prompt = np.array([job.prompt], np.int64)

    def reset(self) -> None:
        """Nothing to do: a step says how many tokens the slot holds."""

    def prefill(self) -> int:
        """Read the prompt."""
        return int(self._session.step(Batch(0, self._prompt, np.zeros(1, np.int64))).logits[0].argmax())

    def decode(self, token: int, count: int) -> list[int]:
        """Decode greedily."""
        tokens, past = [], self._prompt.shape[1]
        for position in range(past, past + count):
            batch = Batch(0, np.array([[token]], np.int64), np.array([position], np.int64))
            token = int(self._session.step(batch).logits[0].argmax())
            tokens.append(token)
        return tokens

    def follow(self, prompt: list[int], answer: list[int]) -> np.ndarray:
        """Read prompt and answer at once."""
        tokens = np.array([[*prompt, *answer[:-1]]], np.int64)
        logits = self._session.step(Batch(0, tokens, np.zeros(1, np.int64), "all")).logits[0]
        return logits[len(prompt) - 1 :]


if __name__ == "__main__":
    serve(Chipwise, ("chipwise", "onnxruntime", "numpy"))
