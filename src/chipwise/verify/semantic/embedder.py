"""Embedder: texts as unit vectors, by any sentence-embedding model in ONNX, on base dependencies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import onnxruntime as ort
from tokenizers import Tokenizer as FastTokenizer

from chipwise.errors import InputError

Vectors = npt.NDArray[np.float32]

# Answers are short, and models of this kind are trained on texts of this length.
_LONGEST = 256
_BATCH = 16
# Kernels for other shapes round otherwise, and 8-bit ones more.
_PADDING_COSINE = 0.99
_MEAN_OF = "last_hidden_state"
_EMBEDDING = "sentence_embedding"
_TAKEN = ("input_ids", "attention_mask", "token_type_ids")


@dataclass(frozen=True)
class Embedded:
    """Texts as the model sees them.

    Attributes:
        vectors: Unit vectors, float32 ``[texts, width]``.
        tokens: Their token ids, cut where the model's reach ends.
        unknown: The share of tokens that the model's vocabulary lacks.
    """

    vectors: Vectors
    tokens: tuple[tuple[int, ...], ...]
    unknown: float


class Embedder(Protocol):
    """What turns texts into vectors."""

    name: str

    def embed(self, texts: Sequence[str]) -> Embedded:
        """The texts' vectors, in order."""
        ...


class OnnxEmbedder:
    """An encoder run by ONNX Runtime.

    Its inputs are of ``input_ids``, ``attention_mask`` and ``token_type_ids``; its output ``sentence_embedding``
    ``[b, width]``, or ``last_hidden_state`` ``[b, s, width]``, of which the mean over the texts' tokens is taken.

    Args:
        graph: The ONNX file.
        tokenizer: The tokenizer, without padding and truncation.
        name: The model's name, for the report.
        threads: Threads of the runtime; 0 for one a core.

    Raises:
        InputError: The file is no such model.
    """

    def __init__(self, graph: Path, tokenizer: FastTokenizer, name: str, *, threads: int = 0) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        try:
            self._session = ort.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
        except Exception as e:  # onnxruntime raises classes of its own that share no other base
            raise InputError(f"not an ONNX model ({e})", where=str(graph), remedy="give a sentence encoder") from e
        self._inputs = [value.name for value in self._session.get_inputs()]
        outputs = [value.name for value in self._session.get_outputs()]
        self._output = next((name for name in (_EMBEDDING, _MEAN_OF) if name in outputs), None)
        if self._output is None or "input_ids" not in self._inputs or not set(self._inputs) <= set(_TAKEN):
            raise InputError(
                f"takes {', '.join(self._inputs)} and gives {', '.join(outputs)}", where=str(graph),
                remedy=f"give an encoder from {', '.join(_TAKEN)} to {_EMBEDDING} or {_MEAN_OF}",
            )  # fmt: skip
        self._tokenizer = tokenizer
        self.name = name
        self._refuse_padding(str(graph))

    def embed(self, texts: Sequence[str]) -> Embedded:
        """The texts' vectors, in order."""
        encoded = [self._tokenizer.encode(text) for text in texts]
        tokens = tuple(tuple(one.ids[:_LONGEST]) or (0,) for one in encoded)
        # Of one length a batch, as far as can be: padding costs and changes rounding.
        order = sorted(range(len(tokens)), key=lambda i: len(tokens[i]))
        parts = [self._run([tokens[i] for i in order[at : at + _BATCH]]) for at in range(0, len(order), _BATCH)]
        width = parts[0].shape[1] if parts else 0
        vectors = np.zeros((len(tokens), width), np.float32)
        if parts:
            vectors[order] = np.concatenate(parts)
        return Embedded(vectors, tokens, self._unknown(tokens))

    def _run(self, batch: Sequence[tuple[int, ...]]) -> Vectors:
        longest = max(map(len, batch))
        ids = np.zeros((len(batch), longest), np.int64)
        mask = np.zeros_like(ids)
        for row, tokens in enumerate(batch):
            ids[row, : len(tokens)], mask[row, : len(tokens)] = tokens, 1
        feeds = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        (found,) = self._session.run([self._output], {name: feeds[name] for name in self._inputs})
        values = np.asarray(found, np.float32)
        if self._output == _MEAN_OF:
            seen = mask[:, :, None].astype(np.float32)
            values = (values * seen).sum(axis=1) / seen.sum(axis=1)
        length = np.linalg.norm(values, axis=1, keepdims=True)
        unit: Vectors = values / np.maximum(length, np.float32(1e-12))
        return unit

    def _refuse_padding(self, where: str) -> None:
        """See that a text's vector does not depend on the padding beside it, as of a mean over all places it would."""
        text = tuple(self._tokenizer.encode("a lamp").ids)[:8] or (0,)
        alone, beside = self._run([text])[0], self._run([text, text * 8])[0]
        cosine = float(alone @ beside)
        if not cosine > _PADDING_COSINE:
            raise InputError(
                f"the same text has another vector beside a longer one (cosine {cosine:.3f}): it counts padding in",
                where=where,
                remedy="give a model that masks padding in its attention and in its mean",
            )

    def _unknown(self, tokens: Sequence[tuple[int, ...]]) -> float:
        ids = [self._tokenizer.token_to_id(name) for name in ("[UNK]", "<unk>")]
        known = {found for found in ids if found is not None}
        total = sum(map(len, tokens))
        return sum(token in known for one in tokens for token in one) / total if total else 0.0
