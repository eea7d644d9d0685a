"""PortableSession: separate prefill and decode graphs in standard operators, as chips without a KV buffer take them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from chipwise.engine.batch import Batch, StepOutput
from chipwise.engine.kv_pool import KvPool
from chipwise.engine.onnxruntime.open_graph import first_line, open_graph
from chipwise.errors import EngineError

Feeds = dict[str, npt.NDArray[np.generic]]


class PortableSession:
    """Two graphs whose outputs are the new tokens' keys and values; the session keeps the cache.

    A static prefill graph takes prompts up to its length, padded on the right, where the causal mask hides the
    padding. What is left of a longer prompt, or follows a past, goes through the decode graph token by token.
    """

    def __init__(
        self,
        prefill: Path,
        decode: Path,
        *,
        n_slots: int,
        max_context: int,
        threads: int,
        mask_value: float,
        sliding_window: int | None,
    ) -> None:
        self._prefill = open_graph(prefill, threads=threads)
        self._decode = open_graph(decode, threads=threads)
        self._mask_value, self._window = np.float32(mask_value), sliding_window
        prefill_shapes = {value.name: value.shape for value in self._prefill.get_inputs()}
        self._decode_shapes = {value.name: value.shape for value in self._decode.get_inputs()}
        length = prefill_shapes["input_ids"][1]
        self._prefill_tokens = length if isinstance(length, int) else None
        self._prefill_inputs = set(prefill_shapes)
        layers = sum(name.startswith("past.") and name.endswith(".key") for name in self._decode_shapes)
        if not layers:
            raise EngineError("not a decode graph: it has no past keys", where=str(decode))
        rows, kv_heads, context, head_dim = self._decode_shapes["past.0.key"]
        self._decode_rows = rows if isinstance(rows, int) else None
        if isinstance(context, int) and context != max_context:
            raise EngineError(
                f"the decode graph holds {context} tokens, not {max_context}", where=str(decode),
                remedy=f"open it with a context of {context}",
            )  # fmt: skip
        logits = next(value for value in self._prefill.get_outputs() if value.name == "logits")
        self._vocab_size = int(logits.shape[-1])
        self._pool = KvPool(layers, n_slots, kv_heads, max_context, head_dim)

    @property
    def n_slots(self) -> int:
        """KV slots."""
        return self._pool.n_slots

    @property
    def max_context(self) -> int:
        """Tokens a slot holds."""
        return self._pool.max_context

    @property
    def vocab_size(self) -> int:
        """Length of a row of logits."""
        return self._vocab_size

    @property
    def max_step_tokens(self) -> int:
        """The most tokens a row of one step may bring."""
        return min(self._prefill_tokens or self._pool.max_context, self._pool.max_context)

    def step(self, batch: Batch) -> StepOutput:
        """Run one step; see ``Session.step``."""
        self._pool.check(batch)
        try:
            if batch.new_tokens == 1 and batch.past.min() > 0:
                logits = self._decode_step(batch.first_slot, batch.tokens, batch.past)[:, None]
            else:
                logits = np.stack([self._row(batch, row) for row in range(batch.rows)])
        except EngineError:
            raise
        except Exception as e:  # onnxruntime raises many types without a common base
            raise EngineError(f"a step failed ({first_line(e)})", where="onnxruntime") from e
        return StepOutput(logits if batch.logits == "all" else logits[:, -1])

    def move_slot(self, source: int, target: int, tokens: int) -> None:
        """Copy the first tokens of one slot's KV over another's."""
        self._pool.move(source, target, tokens)

    def close(self) -> None:
        """Give all memory back."""
        self._pool.close()
        del self._prefill, self._decode

    def _row(self, batch: Batch, row: int) -> npt.NDArray[np.float32]:
        """One row's tokens, ``[n, vocab]``: through prefill if they start the sequence, else one by one."""
        slot, tokens, past = batch.first_slot + row, batch.tokens[row], int(batch.past[row])
        parts = []
        if past == 0:
            past = min(len(tokens), self._prefill_tokens or len(tokens))
            parts.append(self._prefill_step(slot, tokens[:past], all_logits=batch.logits == "all"))
            tokens = tokens[past:]
        for token in tokens:
            parts.append(self._decode_step(slot, np.array([[token]]), np.array([past])))
            past += 1
        return np.concatenate(parts)

    def _prefill_step(self, slot: int, tokens: npt.NDArray[np.int64], *, all_logits: bool) -> npt.NDArray[np.float32]:
        used = len(tokens)
        length = self._prefill_tokens or used
        ids = np.zeros((1, length), np.int64)
        ids[0, :used] = tokens
        rows = np.arange(used) if all_logits else np.array([used - 1])
        feeds: Feeds = {"input_ids": ids, "output_rows": rows}
        positions = np.arange(length)[None]
        if "positions" in self._prefill_inputs:
            feeds["positions"] = positions
        self._add_biases(feeds, self._prefill_inputs, positions, positions)
        outputs = self._run(self._prefill, feeds)
        for layer in range(self._pool.layers):
            for part in ("key", "value"):
                new = outputs[f"present.{layer}.{part}"]
                self._pool.view(layer, part, slot, 1)[0, :, :used] = new[0, :, :used]
        return outputs["logits"]

    def _decode_step(
        self, first: int, tokens: npt.NDArray[np.int64], past: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float32]:
        """One token a row over the cache, ``[rows, vocab]``; in pieces if the graph's batch is fixed."""
        rows = len(tokens)
        width = self._decode_rows or rows
        parts = []
        for start in range(0, rows, width):
            at = max(0, min(first + start, self.n_slots - width))
            lead = first + start - at
            count = min(width - lead, rows - start)
            parts.append(
                self._decode_range(at, width, lead, tokens[start : start + count], past[start : start + count])
            )
        return np.concatenate(parts)

    def _decode_range(
        self, first: int, width: int, lead: int, tokens: npt.NDArray[np.int64], past: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float32]:
        ids, lengths = np.zeros((width, 1), np.int64), np.zeros(width, np.int64)
        used = slice(lead, lead + len(tokens))
        ids[used], lengths[used] = tokens, past
        feeds: Feeds = {"input_ids": ids, "output_rows": np.arange(width), "positions": lengths[:, None]}
        cached = np.where(np.arange(self.max_context)[None] < lengths[:, None], np.arange(self.max_context), -1)
        self._add_biases(
            feeds, set(self._decode_shapes), lengths[:, None], np.concatenate([cached, lengths[:, None]], 1)
        )
        for layer in range(self._pool.layers):
            for part in ("key", "value"):
                feeds[f"past.{layer}.{part}"] = self._pool.view(layer, part, first, width)
        outputs = self._run(self._decode, feeds)
        for layer in range(self._pool.layers):
            for part in ("key", "value"):
                view, new = self._pool.view(layer, part, first, width), outputs[f"present.{layer}.{part}"]
                for row in range(used.start, used.stop):
                    view[row, :, lengths[row]] = new[row, :, 0]
        return outputs["logits"][used]

    def _add_biases(
        self, feeds: Feeds, inputs: set[str], queries: npt.NDArray[np.int64], keys: npt.NDArray[np.int64]
    ) -> None:
        """The mask ``[b, 1, s, t]`` from positions of queries ``[b, s]`` and keys ``[b, t]``, -1 for an empty place."""
        distance = queries[:, :, None] - keys[:, None, :]
        visible = (distance >= 0) & (keys >= 0)[:, None, :]
        for name in ("attention_bias", "attention_bias_local"):
            if name in inputs:
                feeds[name] = np.where(visible, np.float32(0), self._mask_value)[:, None]
            if self._window is not None:
                visible = visible & (distance < self._window)

    def _run(self, session: ort.InferenceSession, feeds: Feeds) -> dict[str, npt.NDArray[np.float32]]:
        names = [value.name for value in session.get_outputs()]
        return dict(zip(names, session.run(names, feeds), strict=True))
