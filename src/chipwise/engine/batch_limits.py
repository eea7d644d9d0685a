"""BatchLimits: what a session takes, and the check that refuses any other batch before a runtime sees it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chipwise.engine.batch import Batch
from chipwise.errors import EngineError


@dataclass(frozen=True)
class BatchLimits:
    """The limits of a session.

    Attributes:
        n_slots: KV slots.
        max_context: Tokens a slot holds.
        vocab_size: Token ids lie below it.
        max_step_tokens: The most new tokens a row.
    """

    n_slots: int
    max_context: int
    vocab_size: int
    max_step_tokens: int

    def check(self, batch: Batch) -> None:
        """Refuse a batch that does not fit.

        Runtimes are no judge of it: some gather zeros for a token outside the vocabulary, and a write behind the end
        of a slot lands in the next one.

        Raises:
            EngineError: Its arrays are of another shape or type, it names a slot or a token that is not there, or it
                brings more tokens than a step takes or a slot holds.
        """
        tokens, past = batch.tokens, batch.past
        if tokens.ndim != 2 or past.shape != tokens.shape[:1]:
            raise _error(f"tokens {list(tokens.shape)} and past {list(past.shape)}, not [rows, n] and [rows]")
        if not (np.issubdtype(tokens.dtype, np.integer) and np.issubdtype(past.dtype, np.integer)):
            raise _error(f"tokens of {tokens.dtype} and past of {past.dtype}, not integers")
        used = batch.used
        if used is not None and (used.shape != past.shape or used.min() < 1 or used.max() > batch.new_tokens):
            raise _error(f"used {used.tolist()}, not 1 to {batch.new_tokens} for each of {batch.rows} rows")
        last = batch.first_slot + batch.rows - 1
        if batch.rows < 1 or batch.first_slot < 0 or last >= self.n_slots:
            raise _error(f"slots {batch.first_slot}..{last} of {self.n_slots}")
        if not 1 <= batch.new_tokens <= self.max_step_tokens:
            raise _error(f"{batch.new_tokens} tokens a row, a step takes 1 to {self.max_step_tokens}")
        longest = int(past.max()) + batch.new_tokens
        if past.min() < 0 or longest > self.max_context:
            raise _error(
                f"{past.min()} to {past.max()} tokens and {batch.new_tokens} more; a slot holds {self.max_context}"
            )
        if tokens.min() < 0 or tokens.max() >= self.vocab_size:
            raise _error(f"token ids {tokens.min()} to {tokens.max()}, the vocabulary has {self.vocab_size}")


def _error(what: str) -> EngineError:
    return EngineError(what, where="batch")
