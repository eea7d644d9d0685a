"""MemoryPlan: what a model will take, known before it is loaded."""

from __future__ import annotations

from dataclasses import dataclass

from chipwise.engine.llamacpp.binding import ENGINE
from chipwise.errors import InputError

CONTEXT_STEP = 256
"""llama.cpp rounds the tokens of a sequence up to a multiple of this."""


@dataclass(frozen=True)
class MemoryPlan:
    """The sizes of a session.

    Attributes:
        weights_bytes: The file.
        n_slots: Sequences.
        slot_tokens: Tokens of a sequence, rounded up as llama.cpp does.
        kv_bytes: KV of all slots, taken when it opens; 0 if the size of a token is not known.
    """

    weights_bytes: int
    n_slots: int
    slot_tokens: int
    kv_bytes: int

    @classmethod
    def of(cls, weights_bytes: int, n_slots: int, max_context: int, kv_token_bytes: int) -> MemoryPlan:
        """The plan of a file opened with so many slots of so many tokens."""
        tokens = -(-max_context // CONTEXT_STEP) * CONTEXT_STEP
        return cls(weights_bytes, n_slots, tokens, n_slots * tokens * kv_token_bytes)

    def require(self, available_bytes: int | None) -> None:
        """Refuse what will not fit.

        Args:
            available_bytes: Memory that is free; None if that is not known.

        Raises:
            InputError: It is less than weights and KV take.
        """
        need = self.weights_bytes + self.kv_bytes
        if self.kv_bytes and available_bytes is not None and need > available_bytes:
            raise InputError(
                f"{self.n_slots} slots of {self.slot_tokens} tokens take {_megabytes(self.kv_bytes)} of KV beside "
                f"{_megabytes(self.weights_bytes)} of weights, and {_megabytes(available_bytes)} of memory are free",
                where=ENGINE,
                remedy="take fewer slots or a shorter context",
            )


def _megabytes(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:.0f} MB"
