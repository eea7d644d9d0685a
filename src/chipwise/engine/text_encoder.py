"""TextEncoder: token ids to one vector a text, by any open encoder."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from chipwise.engine.graph_session import GraphSession
from chipwise.errors import EngineError, InputError

Vectors = npt.NDArray[np.float32]

_IDS, _MASK, _TYPES = "input_ids", "attention_mask", "token_type_ids"
_TAKEN = (_IDS, _MASK, _TYPES)
_EMBEDDING, _MEAN_OF = "sentence_embedding", "last_hidden_state"
# Texts of a run where the graph leaves it open: more gain little, and the longest of them sets the length of all.
_ROWS = 16
# Kernels for other shapes round otherwise, and 8-bit ones more.
_PADDING_COSINE = 0.99


class TextEncoder:
    """An encoder with inputs of ``input_ids``, ``attention_mask`` and ``token_type_ids``.

    Its output is ``sentence_embedding`` ``[b, width]``, pooled and normalized by the graph as the model's settings
    say, or ``last_hidden_state`` ``[b, s, width]``, of which the mean over the texts' tokens is taken.

    Args:
        session: The open graph. One thread runs it.
        where: What it is called in errors.
        rows: Texts of a run, if the graph takes no other number.
        tokens: Tokens of a text with its padding, if the graph takes no other number.

    Raises:
        InputError: The graph is no such encoder.
    """

    def __init__(
        self, session: GraphSession, where: str, *, rows: int | None = None, tokens: int | None = None
    ) -> None:
        inputs, outputs = session.input_names, session.output_names
        output = output_of(inputs, outputs)
        if output is None:
            raise InputError(
                f"takes {', '.join(inputs)} and gives {', '.join(outputs)}",
                where=where,
                remedy=f"give an encoder from {', '.join(_TAKEN)} to {_EMBEDDING} or {_MEAN_OF}",
            )
        self._session = session
        self._output = output
        self._where = where
        self._rows, self._tokens = rows, tokens

    def encode(self, texts: Sequence[Sequence[int]]) -> Vectors:
        """The vectors of texts, float32 ``[texts, width]``, in order.

        Args:
            texts: Token ids of each, at least one, in the frame that the model wants them.

        Raises:
            EngineError: The runtime failed.
        """
        if not texts:
            return np.zeros((0, 0), np.float32)
        # Of one length a run, as far as can be: padding costs and changes rounding.
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        size = self._rows or _ROWS
        parts = [self._run([texts[i] for i in order[at : at + size]]) for at in range(0, len(order), size)]
        sorted_vectors = np.concatenate(parts)
        vectors = np.empty_like(sorted_vectors)
        vectors[order] = sorted_vectors
        return vectors

    def refuse_padding(self, text: Sequence[int]) -> None:
        """See that a text's vector does not depend on the padding beside it, as of a mean over all places it would.

        Args:
            text: Token ids of some text.

        Raises:
            InputError: It does.
        """
        longest = self._tokens or 8 * len(text)
        longer = (list(text) * 8)[:longest]
        alone, beside = self.encode([text])[0], self.encode([text, longer])[0]
        cosine = float(unit(alone[None])[0] @ unit(beside[None])[0])
        if not cosine > _PADDING_COSINE:
            raise InputError(
                f"the same text has another vector beside a longer one (cosine {cosine:.3f}): it counts padding in",
                where=self._where,
                remedy="give a model that masks padding in its attention and in its mean",
            )

    def _run(self, batch: Sequence[Sequence[int]]) -> Vectors:
        longest = self._tokens or max(map(len, batch))
        ids = np.zeros((self._rows or len(batch), longest), np.int64)
        mask = np.zeros_like(ids)
        # Rows of nothing have one token: the mean over none is not a number.
        mask[len(batch) :, 0] = 1
        for row, tokens in enumerate(batch):
            ids[row, : len(tokens)], mask[row, : len(tokens)] = tokens, 1
        feeds = {_IDS: ids, _MASK: mask, _TYPES: np.zeros_like(ids)}
        found = self._session.run({name: feeds[name] for name in self._session.input_names})
        values = np.asarray(found[self._output], np.float32)
        if self._output == _MEAN_OF and values.ndim == 3:
            seen = mask[:, :, None].astype(np.float32)
            values = (values * seen).sum(axis=1) / seen.sum(axis=1)
        if values.ndim != 2 or len(values) != len(ids):
            raise EngineError(f"{self._output} has the shape {list(values.shape)}", where=self._where)
        vectors: Vectors = values[: len(batch)]
        return vectors


def output_of(inputs: Sequence[str], outputs: Sequence[str]) -> str | None:
    """The output that holds the texts' vectors; None if these are not an encoder's inputs and outputs."""
    if _IDS not in inputs or not set(inputs) <= set(_TAKEN):
        return None
    return next((name for name in (_EMBEDDING, _MEAN_OF) if name in outputs), None)


def unit(vectors: Vectors) -> Vectors:
    """Vectors of length 1, of float32 ``[texts, width]``; those of nothing stay zero."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: Vectors = vectors / np.maximum(length, np.float32(1e-12))
    return scaled
