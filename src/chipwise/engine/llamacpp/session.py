"""LlamaCppSession: a slot is a sequence of llama.cpp, and a step is one call of llama_decode."""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from chipwise.engine.batch import Batch, StepOutput
from chipwise.engine.batch_limits import BatchLimits
from chipwise.engine.llamacpp.binding import ENGINE
from chipwise.engine.llamacpp.opened import Opened
from chipwise.engine.llamacpp.runtime_log import runtime_log
from chipwise.engine.llamacpp.token_batch import TokenBatch
from chipwise.errors import EngineError

Floats = npt.NDArray[np.float32]

# What llama_decode returns (llama.h); what is below -1 is fatal.
_RESULTS = {1: "it found no room in its KV cache", 2: "it was aborted", -1: "it refuses the batch"}
# Every vocabulary has it; any other would do.
_SOME_TOKEN = 0


class LlamaCppSession(ABC):
    """A GGUF model with its slots. It closes what it was given. How a slot is copied depends on the model.

    Args:
        opened: The loaded model.
        n_slots: Sequences.
        max_context: Tokens of each.
        max_step_tokens: The most tokens a row, and of one call.
    """

    def __init__(self, opened: Opened, *, n_slots: int, max_context: int, max_step_tokens: int) -> None:
        self._opened: Opened | None = opened
        self._log = runtime_log(opened.binding)
        self.n_slots: Final = n_slots
        self.max_context: Final = max_context
        self.vocab_size: Final = opened.vocab_size
        self.max_step_tokens: Final = max_step_tokens
        self.max_draft_tokens: Final = max_step_tokens - 1
        self.max_draft_rows: Final = n_slots
        self._limits = BatchLimits(n_slots, max_context, self.vocab_size, max_step_tokens)
        self._batch = TokenBatch(opened.binding, max(max_step_tokens, n_slots))
        self._held = [0] * n_slots
        self._last = np.zeros((n_slots, self.vocab_size), np.float32)
        self._every = np.zeros((0, self.vocab_size), np.float32)

    def step(self, batch: Batch) -> StepOutput:
        """Run one step; see ``Session.step``."""
        return self._run(batch)

    def _run(self, batch: Batch) -> StepOutput:
        opened = self._open()
        self._limits.check(batch)
        self._cut(batch)
        counts = np.full(batch.rows, batch.new_tokens) if batch.used is None else batch.used
        every = batch.logits == "all"
        try:
            if every:
                return StepOutput(self._all_logits(opened, batch, counts))
            for rows in self._pieces(counts):
                self._decode(opened, batch, rows, counts, every=False)
                self._copy_logits(opened, self._last[rows.start : rows.stop])
        except EngineError:
            # What of it was computed before it failed is not known.
            for slot in range(batch.first_slot, batch.first_slot + batch.rows):
                self._forget(opened, slot)
            raise
        return StepOutput(self._last[: batch.rows])

    def move_slot(self, source: int, target: int, tokens: int) -> None:
        """Copy the first tokens of one slot's KV over another's.

        Raises:
            EngineError: A slot is not there, the source holds fewer tokens, or llama.cpp has no memory for the copy.
        """
        self._require(source, tokens)
        self._require(target, 0)
        if source == target:
            return
        if tokens == 0:
            self._forget(self._open(), target)
            return
        self._copy(source, target)
        self._shorten(target, tokens)

    def close(self) -> None:
        """Give all memory back."""
        if self._opened is not None:
            self._opened.close()
        self._opened = None

    @abstractmethod
    def _copy(self, source: int, target: int) -> None:
        """Let a slot hold what another one does, and only that."""

    def _overwrite(self, slot: int) -> None:
        """Put the KV of some harmless tokens over what a slot holds."""
        held = self._held[slot]
        for start in range(0, held, self.max_step_tokens):
            tokens = np.full((1, min(self.max_step_tokens, held - start)), _SOME_TOKEN, np.int64)
            self._run(Batch(slot, tokens, np.array([start], np.int64)))

    def _open(self) -> Opened:
        if self._opened is None:
            raise EngineError("the session is closed")
        return self._opened

    def _cut(self, batch: Batch) -> None:
        """Take back what the slots hold behind the batch's past: drafts that were wrong, the end of another prompt."""
        for row, past in enumerate(batch.past.tolist()):
            slot = batch.first_slot + row
            held = self._held[slot]
            if past > held:
                raise EngineError(f"slot {slot} holds {held} tokens, the batch says {past}", where="batch")
            if past < held:
                self._shorten(slot, past)

    def _shorten(self, slot: int, tokens: int) -> None:
        opened = self._open()
        if not opened.binding.llama_memory_seq_rm(opened.memory, slot, tokens, -1):
            raise EngineError(f"llama.cpp cannot take back what slot {slot} holds behind {tokens} tokens", where=ENGINE)
        self._held[slot] = min(self._held[slot], tokens)

    def _forget(self, opened: Opened, slot: int) -> None:
        # Removing a whole sequence never fails (llama.h).
        opened.binding.llama_memory_seq_rm(opened.memory, slot, -1, -1)
        self._held[slot] = 0

    def _pieces(self, counts: npt.NDArray[np.int64]) -> Iterator[range]:
        """Rows that fit one call: more tokens than its batch takes would end the process."""
        start, tokens = 0, 0
        for row, count in enumerate(counts.tolist()):
            if tokens + count > self._batch.capacity:
                yield range(start, row)
                start, tokens = row, 0
            tokens += count
        yield range(start, len(counts))

    def _decode(self, opened: Opened, batch: Batch, rows: range, counts: npt.NDArray[np.int64], *, every: bool) -> None:
        self._batch.clear()
        for row in rows:
            count, past = int(counts[row]), int(batch.past[row])
            self._batch.add(batch.first_slot + row, batch.tokens[row, :count], past, every=every)
        self._log.clear()
        result = opened.binding.llama_decode(opened.context, self._batch.struct)
        if result != 0:
            what = _RESULTS.get(result, f"it failed with {result}")
            raise EngineError(f"llama.cpp could not run the step: {what}{self._log.reason()}", where=ENGINE)
        for row in rows:
            self._held[batch.first_slot + row] = int(batch.past[row] + counts[row])

    def _all_logits(self, opened: Opened, batch: Batch, counts: npt.NDArray[np.int64]) -> Floats:
        """Logits after every token, ``[rows, n, vocab]``; those of padding mean nothing."""
        rows, new = batch.rows, batch.new_tokens
        if len(self._every) < rows * new:
            self._every = np.zeros((rows * new, self.vocab_size), np.float32)
        logits = self._every[: rows * new].reshape(rows, new, self.vocab_size)
        for piece in self._pieces(counts):
            self._decode(opened, batch, piece, counts, every=True)
            found = self._logits(opened, int(counts[piece.start : piece.stop].sum()))
            done = 0
            for row in piece:
                count = int(counts[row])
                logits[row, :count] = found[done : done + count]
                done += count
        return logits

    def _copy_logits(self, opened: Opened, target: Floats) -> None:
        target[...] = self._logits(opened, len(target))

    def _logits(self, opened: Opened, rows: int) -> Floats:
        """llama.cpp's own memory with the logits of the last call, in the order of its tokens ``[rows, vocab]``."""
        pointer = opened.binding.llama_get_logits(opened.context)
        if not pointer:
            raise EngineError("llama.cpp gave no logits", where=ENGINE)
        place = ctypes.addressof(pointer.contents)
        buffer: Any = (ctypes.c_float * (rows * self.vocab_size)).from_address(place)
        return np.frombuffer(buffer, np.float32).reshape(rows, self.vocab_size)

    def _require(self, slot: int, tokens: int) -> None:
        self._open()
        if not 0 <= slot < self.n_slots:
            raise EngineError(f"slot {slot} of {self.n_slots}", where=ENGINE)
        if tokens > self._held[slot]:
            raise EngineError(f"slot {slot} holds {self._held[slot]} tokens, not {tokens}", where=ENGINE)
