"""Scheduler: decides what the next step of the session is. Pure: it knows no clock, thread or engine."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Literal

import numpy as np

from chipwise.engine.batch import Batch
from chipwise.errors import OverloadedError
from chipwise.serve.sequence import Sequence
from chipwise.serve.slots import Move, SlotPool


@dataclass(frozen=True)
class Step:
    """What to run next.

    Attributes:
        kind: ``prefill`` feeds the prompt of one sequence, ``decode`` one token of each that has its prompt in.
        batch: What the session is given. Its arrays are the scheduler's, and valid until it is asked again.
        sequences: The sequence of each row.
        chooses: Whether each row's logits are the next token's: false for a part of a prompt that is not its end.
    """

    kind: Literal["prefill", "decode"]
    batch: Batch
    sequences: tuple[Sequence, ...]
    chooses: bool


class Scheduler:
    """First come, first served, in iterations: sequences join and leave between any two steps.

    Prompts go before decoding, but while others decode only in chunks of ``chunk_tokens``, and never two chunks in a
    row: a running stream waits for one chunk at most. The cycle is ``schedule``, run the step, ``advance``, then for
    every row ``feed`` or ``release``; the moves these return are run on the session in their order.
    """

    def __init__(self, *, n_slots: int, max_step_tokens: int, chunk_tokens: int, max_waiting: int) -> None:
        self._pool = SlotPool(n_slots)
        self._waiting: deque[Sequence] = deque()
        self._max_waiting = max_waiting
        self._max_step_tokens = max_step_tokens
        self._chunk_tokens = max(1, min(chunk_tokens, max_step_tokens))
        self._decode_is_due = False
        self._tokens = np.zeros((n_slots, 1), dtype=np.int64)
        self._past = np.zeros(n_slots, dtype=np.int64)

    @property
    def n_waiting(self) -> int:
        """Sequences without a slot."""
        return len(self._waiting)

    @property
    def running(self) -> tuple[Sequence, ...]:
        """Sequences with a slot."""
        pool = self._pool
        return (*pool.decoding, pool.entering) if pool.entering else tuple(pool.decoding)

    def submit(self, sequence: Sequence) -> None:
        """Let a sequence wait for its turn.

        Raises:
            OverloadedError: As many wait as may.
        """
        # Those who will find a free slot are not waiting, only not called yet.
        if len(self._waiting) - self._pool.free >= self._max_waiting:
            raise OverloadedError(
                f"{self._pool.n_slots} requests run and {len(self._waiting)} wait, no more are taken",
                remedy="try again in a moment",
            )
        self._waiting.append(sequence)

    def schedule(self, now_s: float) -> Step | None:
        """The next step; None if there is nothing to do.

        Args:
            now_s: The time.
        """
        pool = self._pool
        if pool.can_enter and self._waiting:
            sequence = self._waiting.popleft()
            sequence.started_s = now_s
            pool.enter(sequence)
        if pool.entering and not (pool.decoding and self._decode_is_due):
            self._decode_is_due = True
            return self._prefill(pool.entering, alone=not pool.decoding)
        self._decode_is_due = False
        return self._decode() if pool.decoding else None

    def advance(self, step: Step) -> list[Move]:
        """The step has run: its tokens are in the slots, and a complete prompt lets its sequence decode."""
        for sequence in step.sequences:
            sequence.past += step.batch.new_tokens
        if step.kind == "decode" or not step.chooses:
            return []
        move = self._pool.start_decoding()
        return [move] if move else []

    def feed(self, sequence: Sequence, token: int) -> None:
        """A token was chosen: it is fed in the sequence's next step."""
        sequence.next_token = token

    def release(self, *sequences: Sequence) -> list[Move]:
        """These are over, whether they ran or waited. Sequences that are over already are passed over."""
        moves = []
        # From the last slot down, so that none is moved that leaves too.
        for sequence in sorted(sequences, key=lambda s: -1 if s.slot is None else s.slot, reverse=True):
            if sequence.slot is not None:
                move = self._pool.release(sequence)
                moves += [move] if move else []
            elif sequence in self._waiting:
                self._waiting.remove(sequence)
        return moves

    def _prefill(self, sequence: Sequence, *, alone: bool) -> Step:
        prompt, start = sequence.request.prompt, sequence.past
        end = min(len(prompt), start + (self._max_step_tokens if alone else self._chunk_tokens))
        slot = sequence.slot
        if slot is None:
            raise RuntimeError("the entering sequence holds no slot")
        past = self._past[slot : slot + 1]
        past[0] = start
        batch = Batch(slot, prompt[None, start:end], past)
        return Step("prefill", batch, (sequence,), chooses=end == len(prompt))

    def _decode(self) -> Step:
        sequences = tuple(self._pool.decoding)
        rows = len(sequences)
        for row, sequence in enumerate(sequences):
            if sequence.next_token is None:
                raise RuntimeError("a sequence was neither fed nor released after its last step")
            self._tokens[row, 0] = sequence.next_token
            self._past[row] = sequence.past
        return Step("decode", Batch(0, self._tokens[:rows], self._past[:rows]), sequences, chooses=True)
