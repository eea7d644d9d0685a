"""Runs a GGUF file through llama-cpp-python's low-level functions, without what its Llama class does a token."""

from __future__ import annotations

import ctypes

import llama_cpp as ll
import numpy as np
from protocol import Job, serve


class LlamaCpp:
    """A context with one sequence."""

    def __init__(self, job: Job) -> None:
        self._keep_log = ll.llama_log_callback(lambda *_: None)
        ll.llama_log_set(self._keep_log, ctypes.c_void_p(0))
        ll.llama_backend_init()
        self._model = ll.llama_model_load_from_file(job.model.encode(), ll.llama_model_default_params())
        params = ll.llama_context_default_params()
        params.n_ctx, params.n_batch = job.context, job.context
        params.n_threads = params.n_threads_batch = job.threads
        self._context = ll.llama_init_from_model(self._model, params)
        if not self._model or not self._context:
            raise OSError(f"llama.cpp cannot open {job.model}")
        self._vocab_size = ll.llama_vocab_n_tokens(ll.llama_model_get_vocab(self._model))
        self._prompt = (ll.llama_token * len(job.prompt))(*job.prompt)
        self._one = (ll.llama_token * 1)()

    def reset(self) -> None:
        """Empty the KV cache."""
        ll.llama_memory_clear(ll.llama_get_memory(self._context), True)

    def prefill(self) -> int:
        """Read the prompt."""
        return self._step(self._prompt, len(self._prompt))

    def decode(self, token: int, count: int) -> list[int]:
        """Decode greedily."""
        tokens = []
        for _ in range(count):
            self._one[0] = token
            token = self._step(self._one, 1)
            tokens.append(token)
        return tokens

    def _step(self, tokens: ctypes.Array[ctypes.c_int], count: int) -> int:
        if ll.llama_decode(self._context, ll.llama_batch_get_one(tokens, count)):
            raise OSError("llama_decode failed")
        logits = ll.llama_get_logits_ith(self._context, -1)
        return int(np.ctypeslib.as_array(logits, (self._vocab_size,)).argmax())

    def follow(self, prompt: list[int], answer: list[int]) -> np.ndarray:
        """Read the prompt, then a token at a time."""
        rows = []
        for part in (prompt, *([token] for token in answer[:-1])):
            self._step((ll.llama_token * len(part))(*part), len(part))
            logits = ll.llama_get_logits_ith(self._context, -1)
            rows.append(np.ctypeslib.as_array(logits, (self._vocab_size,)).copy())
        return np.stack(rows)


if __name__ == "__main__":
    serve(LlamaCpp, ("llama-cpp-python", "numpy"))
