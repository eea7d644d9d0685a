"""PortableSession: separate prefill and decode graphs in standard operators, as chips without a KV buffer take them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from chipwise.engine.batch import Batch, StepOutput
from chipwise.engine.batch_limits import BatchLimits
from chipwise.engine.decoder_runner import DecoderRunner
from chipwise.engine.known_fault import Symptom, knows_faults
from chipwise.engine.kv_pool import KvPool
from chipwise.engine.mask import Mask
from chipwise.errors import EngineError

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
Feeds = dict[str, npt.NDArray[np.generic]]


class PortableSession:
    """Two graphs whose outputs are the new tokens' keys and values; the session keeps the cache.

    A static prefill graph takes prompts up to its length, padded on the right, where the causal mask hides the
    padding. What is left of a longer prompt, or follows a past, goes through the decode graph, as many tokens at a
    time as it takes.
    """

    def __init__(
        self, prefill: DecoderRunner, decode: DecoderRunner, *, n_slots: int, max_context: int, mask: Mask
    ) -> None:
        """Take two open graphs, which it closes with itself.

        Raises:
            EngineError: They are no such pair, or hold fewer tokens than asked for.
        """
        self._prefill: DecoderRunner | None = prefill
        self._decode: DecoderRunner | None = decode
        self._mask = mask.completed(decode.info)
        rows, kv_heads, context, head_dim = decode.info.kv_shape()
        for graph in (prefill, decode):
            graph.info.require_context(max_context)
        held = context if isinstance(context, int) else max_context
        if held < max_context:
            raise EngineError(
                f"the decode graph holds {held} tokens, not {max_context}", where=str(decode.info.path),
                remedy=f"open it with a context of at most {held}",
            )  # fmt: skip
        self._prefill_tokens = _fixed(prefill.info.inputs["input_ids"][1])
        self._decode_tokens = _fixed(decode.info.inputs["input_ids"][1])
        self._decode_rows = _fixed(rows)
        output_rows = decode.info.inputs.get("output_rows")
        self._output_rows = None if output_rows is None else _fixed(output_rows[0])
        self.n_slots: Final = n_slots
        self.max_context: Final = max_context
        self.vocab_size: Final = prefill.info.vocab_size
        self.max_step_tokens: Final = min(self._prefill_tokens or max_context, max_context)
        self._limits = BatchLimits(n_slots, max_context, self.vocab_size, self.max_step_tokens)
        # A decode graph of more rows than slots reads and ignores the slots behind the last, and one that holds more
        # tokens than a slot may have is fed its whole length.
        self._pool = KvPool(decode.info.layers, max(n_slots, self._decode_rows or 0), kv_heads, held, head_dim)

    @property
    def whole_tokens(self) -> int:
        """See ``PaddedPrefill``."""
        return self._prefill_tokens or 1

    @property
    def max_draft_tokens(self) -> int:
        """See ``ChecksDrafts``: a decode graph that takes one token a row, or gives one row of logits, checks none.

        Nor does one that takes any number of them: kernels add up several tokens otherwise than one.
        """
        most = self._decode_tokens or 1
        if self._output_rows is not None:
            most = min(most, self._output_rows // self.max_draft_rows)
        return max(0, most - 1)

    @property
    def max_draft_rows(self) -> int:
        """See ``ChecksDrafts``."""
        return self._decode_rows or self.n_slots

    def step(self, batch: Batch) -> StepOutput:
        """Run one step; see ``Session.step``."""
        if self._prefill is None or self._decode is None:
            raise EngineError("the session is closed")
        self._limits.check(batch)
        if batch.past.min() > 0 and (batch.new_tokens == 1 or batch.used is not None):
            logits = self._decode_step(self._decode, batch.first_slot, batch.tokens, batch.past)
        else:
            rows = range(batch.rows)
            logits = np.stack([self._row(self._prefill, self._decode, batch, row) for row in rows])
        return StepOutput(logits if batch.logits == "all" else logits[:, -1])

    def move_slot(self, source: int, target: int, tokens: int) -> None:
        """Copy the first tokens of one slot's KV over another's.

        Raises:
            EngineError: A slot is not there, or the session is closed.
        """
        if self._decode is None:
            raise EngineError("the session is closed")
        self._pool.move(source, target, tokens)

    def save_slot(self, slot: int, tokens: int) -> npt.NDArray[np.float32]:
        """See ``SavesSlots``."""
        return self._pool.read(slot, tokens)

    def load_slot(self, slot: int, kv: npt.NDArray[np.float32]) -> None:
        """See ``SavesSlots``."""
        self._pool.write(slot, kv)

    def explain(self, symptom: Symptom) -> str | None:
        """What the graphs' runtime knows about such logits; see ``KnowsFaults``."""
        for graph in (self._prefill, self._decode):
            if knows_faults(graph) and (text := graph.explain(symptom)):
                return text
        return None

    def close(self) -> None:
        """Give all memory back."""
        self._pool.close()
        for graph in (self._prefill, self._decode):
            if graph is not None:
                graph.close()
        self._prefill = self._decode = None

    def _row(self, prefill: DecoderRunner, decode: DecoderRunner, batch: Batch, row: int) -> Floats:
        """One row's tokens, ``[n, vocab]``: through prefill if they start the sequence, else through decode."""
        slot, tokens, past = batch.first_slot + row, batch.tokens[row], int(batch.past[row])
        parts = []
        if past == 0:
            past = min(len(tokens), self._prefill_tokens or len(tokens))
            parts.append(self._prefill_step(prefill, slot, tokens[:past], all_logits=batch.logits == "all"))
            tokens = tokens[past:]
        width = self._decode_tokens or max(1, len(tokens))
        while len(tokens):
            parts.append(self._decode_step(decode, slot, tokens[None, :width], np.array([past]))[0])
            tokens, past = tokens[width:], past + width
        return np.concatenate(parts)

    def _prefill_step(self, graph: DecoderRunner, slot: int, tokens: Ints, *, all_logits: bool) -> Floats:
        used = len(tokens)
        length = self._prefill_tokens or used
        ids = np.zeros((1, length), np.int64)
        ids[0, :used] = tokens
        rows = np.arange(used) if all_logits else np.array([used - 1])
        feeds: Feeds = {"input_ids": ids}
        positions = np.arange(length)[None]
        if "positions" in graph.info.inputs:
            feeds["positions"] = positions
        self._mask.add_to(feeds, graph.info.inputs, positions, positions)
        outputs = _run(graph, feeds, rows)
        for layer in range(self._pool.layers):
            for part in ("key", "value"):
                new = outputs[f"present.{layer}.{part}"]
                self._pool.view(layer, part, slot, 1)[0, :, :used] = new[0, :, :used]
        return outputs["logits"]

    def _decode_step(self, graph: DecoderRunner, first: int, tokens: Ints, past: Ints) -> Floats:
        """New tokens over the cache, logits ``[rows, n, vocab]``; in pieces if the graph's batch is fixed.

        There are at most as many tokens a row as the graph takes; fewer are padded on the right.
        """
        rows = len(tokens)
        width = self._decode_rows or rows
        parts = []
        for start in range(0, rows, width):
            at = max(0, min(first + start, self._pool.n_slots - width))
            lead = first + start - at
            count = min(width - lead, rows - start)
            piece = slice(start, start + count)
            parts.append(self._decode_range(graph, at, width, lead, tokens[piece], past[piece]))
        return np.concatenate(parts)

    def _decode_range(
        self, graph: DecoderRunner, first: int, width: int, lead: int, tokens: Ints, past: Ints
    ) -> Floats:
        used, count = slice(lead, lead + len(tokens)), tokens.shape[1]
        length = self._decode_tokens or count
        ids, lengths = np.zeros((width, length), np.int64), np.zeros(width, np.int64)
        ids[used, :count], lengths[used] = tokens, past
        positions = lengths[:, None] + np.arange(length)
        feeds: Feeds = {
            "input_ids": ids,
            # Padding behind the last token may pass the end of the graph's tables; what it computes is dropped.
            "positions": np.minimum(positions, self.max_context - 1),
        }
        places = np.arange(self._pool.max_context)
        cached = np.where(places < lengths[:, None], places, -1)
        self._mask.add_to(feeds, graph.info.inputs, positions, np.concatenate([cached, positions], 1))
        for layer in range(self._pool.layers):
            for part in ("key", "value"):
                feeds[f"past.{layer}.{part}"] = self._pool.view(layer, part, first, width)
        wanted = np.arange(width * length).reshape(width, length)[used, :count]
        outputs = _run(graph, feeds, wanted.ravel())
        for layer in range(self._pool.layers):
            for part in ("key", "value"):
                view, new = self._pool.view(layer, part, first, width), outputs[f"present.{layer}.{part}"]
                for row in range(used.start, used.stop):
                    view[row, :, lengths[row] : lengths[row] + count] = new[row, :, :count]
        return outputs["logits"].reshape(*wanted.shape, -1)


def _run(graph: DecoderRunner, feeds: Feeds, rows: Ints) -> dict[str, Floats]:
    """Run a graph for the logits of some tokens, again and again if it gives a fixed number of them."""
    if "output_rows" not in graph.info.inputs:
        # It gives the logits of all its tokens.
        everything = graph.run(feeds)
        return {**everything, "logits": everything["logits"].reshape(-1, graph.info.vocab_size)[rows]}
    width = _fixed(graph.info.inputs["output_rows"][0]) or len(rows)
    logits: list[Floats] = []
    outputs: Mapping[str, npt.NDArray[Any]] = {}
    for start in range(0, len(rows), width):
        piece = rows[start : start + width]
        feeds["output_rows"] = np.pad(piece, (0, width - len(piece)))
        outputs = graph.run(feeds)
        logits.append(outputs["logits"][: len(piece)])
    return {**outputs, "logits": np.concatenate(logits)}


def _fixed(dim: int | str | None) -> int | None:
    return dim if isinstance(dim, int) else None
