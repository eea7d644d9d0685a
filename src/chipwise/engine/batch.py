"""Batch and StepOutput: what goes into and comes out of one step of a session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Batch:
    """One step: every row extends one KV slot by the same number of tokens.

    Rows name KV slots ``first_slot .. first_slot + rows - 1``, which lie side by side, so an engine can
    bind the memory without copying. A prefill has one row and many tokens, a decode many rows and one token each.

    Attributes:
        first_slot: The slot of row 0.
        tokens: Token ids, int64 ``[rows, n]``.
        past: Tokens already in each row's slot, int64 ``[rows]``; row r's new tokens get positions ``past[r] ..``.
        logits: ``last``: the logits after each row's last token; ``all``: after every token.
        used: Tokens that each row really brings, int64 ``[rows]``, 1 or more; those behind are padding, whose logits
            and KV mean nothing. A session may compute padding or leave it out. Given for drafts alone, which are to
            get the logits that one token a step gives; None for prompts and plain decode steps.
    """

    first_slot: int
    tokens: npt.NDArray[np.int64]
    past: npt.NDArray[np.int64]
    logits: Literal["last", "all"] = "last"
    used: npt.NDArray[np.int64] | None = None

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.tokens.shape[0])

    @property
    def new_tokens(self) -> int:
        """Tokens a row."""
        return int(self.tokens.shape[1])


@dataclass(frozen=True)
class StepOutput:
    """The result of one step.

    Attributes:
        logits: float32 ``[rows, vocab]`` for ``last``, ``[rows, n, vocab]`` for ``all``. The memory belongs to the
            session and is overwritten by its next step: copy what must last.
        once_s: Seconds of the step that the next one like it will not take again.
    """

    logits: npt.NDArray[np.float32]
    once_s: float = 0.0
