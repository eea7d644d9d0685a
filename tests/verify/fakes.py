"""A tiny causal model in numpy that implements Session, with faults that can be planted in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from chipwise.engine import Batch, StepOutput

VOCAB = 41
EOS = 2
WIDTH = 24
_STALE = 1e3

Array = npt.NDArray[np.float32]
Fault = Literal[
    "shift", "unmasked", "crosstalk", "mask_twice", "right_padding", "left_padding", "left_padding_positions"
]
PAD = 0


@dataclass(frozen=True)
class Seen:
    """The shape and the tokens of one step."""

    rows: int
    new_tokens: int
    past: tuple[int, ...]
    tokens: tuple[tuple[int, ...], ...]


class TinySession:
    """One attention layer over learned positions, keys and values in slots.

    Args:
        noise: Relative noise on the output weights: what quantization does.
        fault: What goes wrong in a decode (one token a row, last logits): positions off by one, stale places of the
            slot read, another slot read, or the own token masked; or, where several tokens are read, padding to the
            longest step: the logits taken behind padding on the right, padding on the left that is attended to, or
            counted in the positions.
        spoil: Called with the logits ``[rows, n, vocab]`` and the batch before they are returned.
    """

    def __init__(
        self,
        *,
        seed: int = 0,
        noise: float = 0.0,
        fault: Fault | None = None,
        spoil: Callable[[Array, Batch], None] = lambda logits, batch: None,
        n_slots: int = 3,
        max_context: int = 64,
        max_step_tokens: int = 5,
    ) -> None:
        rng = np.random.default_rng(seed)
        self._embedding = rng.normal(0, 1, (VOCAB, WIDTH)).astype(np.float32)
        self._positions = rng.normal(0, 0.7, (max_context + 1, WIDTH)).astype(np.float32)
        self._qkv = rng.normal(0, WIDTH**-0.5, (3, WIDTH, WIDTH)).astype(np.float32)
        head = rng.normal(0, 0.5, (WIDTH, VOCAB)).astype(np.float32)
        damage = np.random.default_rng(seed + 1).normal(0, noise, head.shape)
        self._head = (head * (1 + damage)).astype(np.float32)
        self._fault, self._spoil = fault, spoil
        self.n_slots, self.max_context, self.vocab_size = n_slots, max_context, VOCAB
        self.max_step_tokens = max_step_tokens
        # What a slot held before is never zero.
        self._kv = np.full((2, n_slots, max_context, WIDTH), _STALE, np.float32)
        self._held = [0] * n_slots
        self.steps: list[Seen] = []
        self.closed = False

    def step(self, batch: Batch) -> StepOutput:
        assert not self.closed
        assert 0 < batch.new_tokens <= self.max_step_tokens
        assert batch.first_slot + batch.rows <= self.n_slots
        self.steps.append(
            Seen(batch.rows, batch.new_tokens, tuple(batch.past.tolist()), tuple(map(tuple, batch.tokens.tolist())))
        )
        logits = np.stack([self._row(batch, row) for row in range(batch.rows)])
        self._spoil(logits, batch)
        return StepOutput(logits if batch.logits == "all" else logits[:, -1])

    def _row(self, batch: Batch, row: int) -> Array:
        slot, past, n = batch.first_slot + row, int(batch.past[row]), batch.new_tokens
        assert 0 <= past <= self._held[slot]
        assert past + n <= self.max_context
        one = n == 1 and batch.logits == "last"
        fault = self._fault if one != str(self._fault).endswith(("padding", "positions")) else None
        pads = self.max_step_tokens - n
        at = np.arange(past, past + n) + (fault == "shift") + (pads if fault == "left_padding_positions" else 0)
        at = np.minimum(at, self.max_context)
        x = self._embedding[batch.tokens[row]] + self._positions[at]
        q, k, v = (x @ weight for weight in self._qkv)
        self._kv[0, slot, past : past + n], self._kv[1, slot, past : past + n] = k, v
        self._held[slot] = past + n
        if fault == "right_padding" and batch.logits == "last" and pads:
            return ((self._embedding[PAD] + self._positions[past + n]) @ self._head)[None].astype(np.float32)
        read = (slot + 1) % self.n_slots if fault == "crosstalk" else slot
        end = min(past + n + (fault == "unmasked"), self.max_context)
        scores = q @ self._kv[0, read, :end].T / WIDTH**0.5
        hidden = np.arange(end) > np.arange(past, past + n)[:, None]
        if fault == "mask_twice":
            hidden |= np.arange(end) == past
        if fault != "unmasked":
            scores = np.where(hidden, -np.inf, scores)
        values = self._kv[1, read, :end]
        if fault == "left_padding":
            pad_key, pad_value = (self._embedding[PAD] @ weight for weight in self._qkv[1:])
            scores = np.hstack([np.repeat((q @ pad_key / WIDTH**0.5)[:, None], pads, axis=1), scores])
            values = np.vstack([*[pad_value] * pads, values])
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        attended = scores / scores.sum(axis=1, keepdims=True) @ values
        return ((x + 2 * attended) @ self._head).astype(np.float32)

    def move_slot(self, source: int, target: int, tokens: int) -> None:
        self._kv[:, target, :tokens] = self._kv[:, source, :tokens]
        self._held[target] = tokens

    def close(self) -> None:
        self.closed = True


def prompts_of(seed: int, count: int, *, shortest: int = 3, longest: int = 17) -> list[tuple[int, ...]]:
    """Random prompts without the end token."""
    rng = np.random.default_rng(seed)
    return [tuple(rng.integers(3, VOCAB, rng.integers(shortest, longest + 1)).tolist()) for _ in range(count)]
