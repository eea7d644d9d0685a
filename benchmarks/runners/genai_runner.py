"""Runs a model folder of onnxruntime-genai."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnxruntime_genai as og
from protocol import Job, serve


class GenAi:
    """A generator that is made anew each round: that is how its KV cache is emptied."""

    def __init__(self, job: Job) -> None:
        config = og.Config(job.model)
        config.overlay(json.dumps({"model": {"decoder": {"session_options": {"intra_op_num_threads": job.threads}}}}))
        self._model = og.Model(config)
        self._vocab_size = json.loads((Path(job.model) / "genai_config.json").read_text())["model"]["vocab_size"]
        self._params = og.GeneratorParams(self._model)
        # An end token must not stop a round early: the other contestants have no such notion.
        shortest = len(job.prompt) + job.new_tokens + 1
        self._params.set_search_options(max_length=job.context, min_length=shortest, do_sample=False)
        self._prompt = np.array(job.prompt, np.int32)
        self._generator: og.Generator | None = None

    def reset(self) -> None:
        """A new generator; the old one gives its memory back first."""
        self._generator = None
        self._generator = og.Generator(self._model, self._params)

    def prefill(self) -> int:
        """Read the prompt. The first generate_next_token runs no step: it picks from the prompt's logits."""
        self._generator.append_tokens(self._prompt)
        self._generator.generate_next_token()
        return int(self._generator.get_next_tokens()[0])

    def decode(self, token: int, count: int) -> list[int]:
        """Decode greedily; the generator itself keeps the token it picked."""
        for _ in range(count):
            self._generator.generate_next_token()
        return [int(token) for token in self._generator.get_sequence(0)[-count:]]

    def follow(self, prompt: list[int], answer: list[int]) -> np.ndarray:
        """Read the prompt, then a token at a time."""
        rows = []
        for part in (prompt, *([token] for token in answer[:-1])):
            self._generator.append_tokens(np.array(part, np.int32))
            rows.append(np.array(self._generator.get_logits()).reshape(-1, self._vocab_size)[-1])
        return np.stack(rows)


if __name__ == "__main__":
    serve(GenAi, ("onnxruntime-genai", "onnxruntime", "numpy"))
