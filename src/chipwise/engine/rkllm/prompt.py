"""RunInput: what a run is fed, as the runtime takes it."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from chipwise.engine.rkllm.sampling import RkllmSampling
from chipwise.engine.rkllm.structs import InferMode, InferParam, Input, InputType, PromptCacheParam, TokenInput
from chipwise.errors import InputError

_MAX_TOKEN = (1 << 31) - 1


class RunInput:
    """The structures of one run. They point into each other, so they live as long as this does."""

    def __init__(self, given: Input, infer: InferParam, *pointed_to: Any) -> None:
        self._input, self._infer, self._pointed_to = given, infer, pointed_to

    @property
    def pointers(self) -> tuple[Any, Any]:
        """Pointers to the input and the parameters, as ``rkllm_run`` takes them."""
        return ctypes.byref(self._input), ctypes.byref(self._infer)


def run_input(
    prompt: str | Sequence[int],
    *,
    context: int,
    max_new_tokens: int,
    sampling: RkllmSampling,
    mode: InferMode = InferMode.GENERATE,
    keep_history: bool = False,
    save_prompt_cache: Path | None = None,
) -> RunInput:
    """Make the structures of a run.

    Args:
        prompt: Text, or token ids.
        context: Tokens the model holds.
        max_new_tokens: Tokens of the answer at most.
        sampling: How they are chosen.
        mode: What is to be returned.
        keep_history: Whether the conversation is kept for the next run.
        save_prompt_cache: File to keep the prompt's KV cache in.

    Raises:
        InputError: The prompt is empty, holds what is no token, or does not fit.
    """
    if not 0 < max_new_tokens <= context:
        raise InputError(f"max_new_tokens is {max_new_tokens}, and the context {context}", where="rkllm")
    given, array = (_text(prompt), None) if isinstance(prompt, str) else _tokens(prompt, context, max_new_tokens)
    infer = InferParam(mode=mode, keep_history=int(keep_history), max_new_tokens=max_new_tokens)
    struct = sampling.to_struct()
    infer.sampling_params = ctypes.pointer(struct)
    cache = None
    if save_prompt_cache is not None:
        cache = PromptCacheParam(save_prompt_cache=1, prompt_cache_path=str(save_prompt_cache).encode())
        infer.prompt_cache_params = ctypes.pointer(cache)
    return RunInput(given, infer, array, struct, cache)


def _text(prompt: str) -> Input:
    # It ends at the first NUL for C.
    if not prompt or "\0" in prompt:
        raise InputError("the prompt is empty" if not prompt else "the prompt holds a NUL character", where="rkllm")
    given = Input(role=b"user", enable_thinking=False, input_type=InputType.PROMPT)
    given.data.prompt_input = prompt.encode("utf-8", "replace")
    return given


def _tokens(tokens: Sequence[int], context: int, max_new_tokens: int) -> tuple[Input, Any]:
    if not len(tokens):
        raise InputError("the prompt has no tokens", where="rkllm")
    if not all(0 <= token <= _MAX_TOKEN for token in tokens):
        raise InputError("a token id is negative or above 2147483647", where="rkllm")
    if len(tokens) + max_new_tokens > context:
        raise InputError(
            f"{len(tokens)} tokens and {max_new_tokens} more do not fit a context of {context}",
            where="rkllm",
            remedy="shorten the prompt or the answer, or open the model with a longer context",
        )
    array = (ctypes.c_int32 * len(tokens))(*(int(token) for token in tokens))
    given = Input(role=b"user", enable_thinking=False, input_type=InputType.TOKEN)
    given.data.token_input = TokenInput(ctypes.cast(array, ctypes.POINTER(ctypes.c_int32)), len(tokens))
    return given, array
