"""RkllmSettings: how a model is opened."""

from __future__ import annotations

from dataclasses import dataclass, field

from chipwise.engine.rkllm.library import DEFAULT_NAME
from chipwise.engine.rkllm.sampling import RkllmSampling
from chipwise.errors import InputError

# RKLLM SDK 1.2.0 and newer (CHANGELOG of airockchip/rknn-llm).
MAX_CONTEXT = 16384
CONTEXT_STEP = 32
_ANSWER_TOKENS = 512


@dataclass(frozen=True)
class RkllmSettings:
    """Settings.

    Attributes:
        context: Tokens of a prompt and its answer: at most 16384, and a multiple of 32.
        max_new_tokens: Tokens of an answer at most, where a run says nothing else; None for 512, or half a context
            that is shorter than 1024.
        sampling: How tokens are chosen, where a run says nothing else.
        library: Path of librkllmrt.so, or a name for the dynamic linker.
        trust_layout: Open it even if librkllmrt.so looks like one of another release.
        embed_flash: Whether embeddings are read from the file as they are needed; None leaves it to the runtime.
        keep_special_tokens: Whether special tokens have a text.
    """

    context: int = 4096
    max_new_tokens: int | None = None
    sampling: RkllmSampling = field(default_factory=RkllmSampling)
    library: str = DEFAULT_NAME
    trust_layout: bool = False
    embed_flash: bool | None = None
    keep_special_tokens: bool = False

    def __post_init__(self) -> None:
        """Refuse what the runtime would refuse, or worse.

        Raises:
            InputError: The context or the number of new tokens is out of its range.
        """
        if not 0 < self.context <= MAX_CONTEXT or self.context % CONTEXT_STEP:
            near = min(MAX_CONTEXT, max(CONTEXT_STEP, self.context // CONTEXT_STEP * CONTEXT_STEP))
            raise InputError(
                f"a context of {self.context} tokens",
                where="rkllm",
                remedy=f"take a multiple of {CONTEXT_STEP} of at most {MAX_CONTEXT}, e.g. {near}",
            )
        if not 0 < self.answer_tokens <= self.context:
            raise InputError(f"max_new_tokens is {self.max_new_tokens}, and the context {self.context}", where="rkllm")

    @property
    def answer_tokens(self) -> int:
        """Tokens of an answer at most, where a run says nothing else."""
        return min(_ANSWER_TOKENS, self.context // 2) if self.max_new_tokens is None else self.max_new_tokens
