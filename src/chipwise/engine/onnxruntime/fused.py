"""FusedSession: one graph for prefill and decode, with the KV cache of all slots in one pool written in place."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from chipwise.engine.batch import Batch, StepOutput
from chipwise.engine.batch_limits import BatchLimits
from chipwise.engine.kv_pool import KvPool
from chipwise.engine.onnxruntime.decoder_graph import DecoderGraph
from chipwise.engine.onnxruntime.open_graph import stepping
from chipwise.errors import EngineError

# A chunk of this many tokens keeps a step's activations small and still fills the cores.
_MAX_STEP_TOKENS = 512


class FusedSession:
    """A decoder whose attention is ``GroupQueryAttention`` over a buffer that is both past and present.

    The graph's inputs are bound once for every range of slots and reused: a decode step writes a few numbers into
    arrays that are bound already, and runs.
    """

    def __init__(
        self, path: Path, *, n_slots: int, max_context: int, threads: int, fuse_qdq: bool = True, yields: bool = False
    ) -> None:
        graph = DecoderGraph(path, threads=threads, fuse_qdq=fuse_qdq, yields=yields)
        info = graph.info
        _, kv_heads, _, head_dim = info.kv_shape()
        if "seqlens_k" not in info.inputs:
            raise EngineError("not a fused decoder graph: it has no seqlens_k", where=str(path))
        info.require_context(max_context)
        self._session: ort.InferenceSession | None = graph.session
        self.n_slots: Final = n_slots
        self.max_context: Final = max_context
        self.vocab_size: Final = info.vocab_size
        self.max_step_tokens: Final = min(_MAX_STEP_TOKENS, max_context)
        self.max_draft_tokens: Final = self.max_step_tokens - 1
        self.max_draft_rows: Final = 1  # as _row_by_row says
        self._limits = BatchLimits(n_slots, max_context, self.vocab_size, self.max_step_tokens)
        self._pool = KvPool(info.layers, n_slots, kv_heads, max_context, head_dim)
        self._bindings: dict[tuple[int, int], _Binding] = {}
        self._last_logits = np.zeros((n_slots, info.vocab_size), np.float32)
        self._draft_logits = np.empty((0, info.vocab_size), np.float32)

    def step(self, batch: Batch) -> StepOutput:
        """Run one step; see ``Session.step``."""
        session = self._open_session()
        self._limits.check(batch)
        if batch.rows > 1 and batch.new_tokens > 1:
            return self._row_by_row(batch)
        key = (batch.first_slot, batch.rows)
        binding = self._bindings.get(key)
        if binding is None:
            binding = self._bindings[key] = _Binding(session, self._pool, *key)
        logits = self._last_logits[: batch.rows]
        if batch.logits == "all" and batch.new_tokens > 1:
            logits = self._all_logits(batch)
        with stepping():
            binding.fill(batch, logits)
            session.run_with_iobinding(binding.io)
        if batch.logits == "all":
            logits = logits.reshape(batch.rows, batch.new_tokens, self.vocab_size)
        return StepOutput(logits)

    def move_slot(self, source: int, target: int, tokens: int) -> None:
        """Copy the first tokens of one slot's KV over another's.

        Raises:
            EngineError: A slot is not there, or the session is closed.
        """
        self._open_session()
        self._pool.move(source, target, tokens)

    def save_slot(self, slot: int, tokens: int) -> npt.NDArray[np.float32]:
        """See ``SavesSlots``."""
        return self._pool.read(slot, tokens)

    def load_slot(self, slot: int, kv: npt.NDArray[np.float32]) -> None:
        """See ``SavesSlots``."""
        self._pool.write(slot, kv)

    def close(self) -> None:
        """Give all memory back."""
        self._bindings.clear()
        self._pool.close()
        self._session = None

    def _open_session(self) -> ort.InferenceSession:
        if self._session is None:
            raise EngineError("the session is closed")
        return self._session

    def _all_logits(self, batch: Batch) -> npt.NDArray[np.float32]:
        """Room for the logits of one row's tokens; for drafts, which come every few milliseconds, always the same."""
        if batch.used is None:
            return np.empty((batch.new_tokens, self.vocab_size), np.float32)
        if len(self._draft_logits) < batch.new_tokens:
            self._draft_logits = np.empty((batch.new_tokens, self.vocab_size), np.float32)
        return self._draft_logits[: batch.new_tokens]

    def _row_by_row(self, batch: Batch) -> StepOutput:
        """Many tokens of many rows: GroupQueryAttention takes new tokens over a past for one row only."""
        parts = []
        for row in range(batch.rows):
            one = slice(row, row + 1)
            single = Batch(batch.first_slot + row, batch.tokens[one], batch.past[one], batch.logits)
            parts.append(self.step(single).logits.copy())
        return StepOutput(np.concatenate(parts))


class _Binding:
    """The graph's inputs and outputs bound to the slots ``first .. first + rows - 1``."""

    def __init__(self, session: ort.InferenceSession, pool: KvPool, first: int, rows: int) -> None:
        self.io = session.io_binding()
        self._seqlens = np.zeros(rows, np.int32)
        self._total = np.zeros((), np.int32)
        self._tokens = np.zeros((rows, 1), np.int64)
        self._output_rows = np.arange(rows, dtype=np.int64)
        for layer in range(pool.layers):
            for part in ("key", "value"):
                view = pool.view(layer, part, first, rows)
                self.io.bind_input(f"past.{layer}.{part}", "cpu", 0, np.float32, view.shape, view.ctypes.data)
                self.io.bind_output(f"present.{layer}.{part}", "cpu", 0, np.float32, view.shape, view.ctypes.data)
        self._bind_input("seqlens_k", self._seqlens)
        self._bind_input("total_sequence_length", self._total)
        self._bound_tokens: npt.NDArray[np.int64] | None = None
        self._bound_rows: npt.NDArray[np.int64] | None = None
        self._bound_logits = 0

    def fill(self, batch: Batch, logits: npt.NDArray[np.float32]) -> None:
        """Put a batch's numbers where the graph reads them."""
        self._seqlens[:] = batch.past
        self._seqlens += batch.new_tokens - 1
        self._total[...] = self._seqlens.max() + 1
        tokens, rows = self._tokens, self._output_rows
        if batch.new_tokens == 1:
            tokens[:] = batch.tokens
        else:
            tokens = np.ascontiguousarray(batch.tokens, np.int64)
            last = np.array([batch.new_tokens - 1], np.int64)
            rows = np.arange(batch.new_tokens, dtype=np.int64) if batch.logits == "all" else last
        if tokens is not self._bound_tokens:
            self._bind_input("input_ids", tokens)
            self._bound_tokens = tokens
        if rows is not self._bound_rows:
            self._bind_input("output_rows", rows)
            self._bound_rows = rows
        if logits.ctypes.data != self._bound_logits or batch.new_tokens > 1:
            self.io.bind_output("logits", "cpu", 0, np.float32, logits.shape, logits.ctypes.data)
            self._bound_logits = logits.ctypes.data if batch.new_tokens == 1 else 0

    def _bind_input(self, name: str, array: npt.NDArray[np.generic]) -> None:
        self.io.bind_input(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
