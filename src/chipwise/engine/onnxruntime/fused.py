"""FusedSession: one graph for prefill and decode, with the KV cache of all slots in one pool written in place."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from chipwise.engine.batch import Batch, StepOutput
from chipwise.engine.batch_limits import BatchLimits
from chipwise.engine.kv_pool import KvPool, Place
from chipwise.engine.onnxruntime.decoder_graph import DecoderGraph, version
from chipwise.engine.onnxruntime.open_graph import stepping
from chipwise.errors import EngineError

# A chunk of this many tokens keeps a step's activations small and still fills the cores.
_MAX_STEP_TOKENS = 512
# A row of a slot for each token to check: longer guesses are hardly ever right to their end.
_MAX_DRAFT_TOKENS = 16
# From here on, GroupQueryAttention has the kernel that writes the keys and values of all rows before it reads those of
# any. Before (1.23.2 to 1.27.0 were tried), each of its threads wrote what it was about to read: rows that are one slot
# would miss tokens.
_WRITES_FIRST = "1.28"
_READS_AS_IT_WRITES = "ORT_GQA_DISABLE_FLASH_ATTENTION"


class FusedSession:
    """A decoder whose attention is ``GroupQueryAttention`` over a buffer that is both past and present.

    The graph's inputs are bound once for every range of slots and reused: a decode step writes a few numbers into
    arrays that are bound already, and runs. Drafts are rows of one token each in slots that are all the same memory
    (``KvPool.repeat``): so every token goes through the kernels of a decode step, and gives the same bits.
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
        heads = int(info.metadata.get("chipwise.heads", kv_heads))
        most = 1 + min(_MAX_DRAFT_TOKENS, max_context - 1) if _drafts_exactly(heads, threads) else 1
        self._limits = BatchLimits(n_slots, max_context, self.vocab_size, self.max_step_tokens)
        self._pool = KvPool(info.layers, n_slots, kv_heads, max_context, head_dim, repeats=most)
        self.max_draft_tokens: Final = self._pool.repeats - 1
        self.max_draft_rows: Final = 1
        self._bindings: dict[tuple[int, int], _Binding] = {}
        self._draft_bindings: dict[int, _Binding] = {}
        self._last_logits = np.zeros((n_slots, info.vocab_size), np.float32)
        self._draft_logits = np.empty((self._pool.repeats, info.vocab_size), np.float32)

    def step(self, batch: Batch) -> StepOutput:
        """Run one step; see ``Session.step``."""
        session = self._open_session()
        self._limits.check(batch)
        if batch.rows > 1 and batch.new_tokens > 1:
            return self._row_by_row(batch)
        if batch.used is not None and 1 < batch.new_tokens <= self._pool.repeats:
            return self._check_draft(session, batch)
        key = (batch.first_slot, batch.rows)
        binding = self._bindings.get(key)
        if binding is None:
            binding = self._bindings[key] = _Binding(
                session,
                self._pool.layers,
                partial(self._pool.place, first=batch.first_slot, rows=batch.rows),
                batch.rows,
            )
        logits = self._last_logits[: batch.rows]
        if batch.logits == "all" and batch.new_tokens > 1:
            logits = np.empty((batch.new_tokens, self.vocab_size), np.float32)
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
        self._draft_bindings.clear()
        self._pool.close()
        self._session = None

    def _open_session(self) -> ort.InferenceSession:
        if self._session is None:
            raise EngineError("the session is closed")
        return self._session

    def _check_draft(self, session: ort.InferenceSession, batch: Batch) -> StepOutput:
        """Several tokens of one row, each as a row of its own in the same slot."""
        count = batch.new_tokens
        started_s = time.perf_counter()
        fresh = self._pool.repeat(batch.first_slot, int(batch.past[0]) + count)
        once_s = time.perf_counter() - started_s if fresh else 0.0
        binding = self._draft_bindings.get(count)
        if binding is None:
            place = partial(self._pool.repeated, rows=count)
            binding = self._draft_bindings[count] = _Binding(session, self._pool.layers, place, count)
        logits = self._draft_logits[:count]
        tokens = batch.tokens.reshape(count, 1)
        past = batch.past + np.arange(count)
        with stepping():
            binding.fill(Batch(0, tokens, past), logits)
            session.run_with_iobinding(binding.io)
        return StepOutput(logits[None] if batch.logits == "all" else logits[-1:], once_s)

    def _row_by_row(self, batch: Batch) -> StepOutput:
        """Many tokens of many rows: GroupQueryAttention takes new tokens over a past for one row only."""
        parts = []
        for row in range(batch.rows):
            one = slice(row, row + 1)
            used = None if batch.used is None else batch.used[one]
            single = Batch(batch.first_slot + row, batch.tokens[one], batch.past[one], batch.logits, used)
            parts.append(self.step(single).logits.copy())
        return StepOutput(np.concatenate(parts))


class _Binding:
    """The graph's inputs and outputs bound to rows of KV.

    Args:
        session: The open graph.
        layers: Layers with KV.
        place: Where the KV of a layer's part lies.
        rows: How many rows.
    """

    def __init__(
        self, session: ort.InferenceSession, layers: int, place: Callable[[int, str], Place], rows: int
    ) -> None:
        self.io = session.io_binding()
        self._seqlens = np.zeros(rows, np.int32)
        self._total = np.zeros((), np.int32)
        self._tokens = np.zeros((rows, 1), np.int64)
        self._output_rows = np.arange(rows, dtype=np.int64)
        for layer in range(layers):
            for part in ("key", "value"):
                shape, address = place(layer, part)
                self.io.bind_input(f"past.{layer}.{part}", "cpu", 0, np.float32, shape, address)
                self.io.bind_output(f"present.{layer}.{part}", "cpu", 0, np.float32, shape, address)
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


def _drafts_exactly(heads: int, threads: int) -> bool:
    """Whether rows that are one slot give the bits that one token a step gives.

    Heads that are fewer than threads are no such case: then a lone row, and no other, has its context split among
    them.
    """
    if version(ort.__version__) < version(_WRITES_FIRST) or os.environ.get(_READS_AS_IT_WRITES, "0") != "0":
        return False
    return heads >= (threads or os.cpu_count() or 1)
