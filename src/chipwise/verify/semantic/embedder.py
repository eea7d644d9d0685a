"""Embedder: texts as unit vectors, by any sentence-embedding model in ONNX, on base dependencies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tokenizers import Tokenizer as FastTokenizer

from chipwise.engine.onnxruntime.graph import OnnxGraphSession
from chipwise.engine.text_encoder import TextEncoder, Vectors, unit
from chipwise.errors import EngineError, InputError

# Answers are short, and models of this kind are trained on texts of this length.
_LONGEST = 256


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
    """An encoder run by ONNX Runtime; see ``TextEncoder`` for what it may be.

    Args:
        graph: The ONNX file.
        tokenizer: The tokenizer, without padding and truncation.
        name: The model's name, for the report.
        threads: Threads of the runtime; 0 for one a core.

    Raises:
        InputError: The file is no such model.
    """

    def __init__(self, graph: Path, tokenizer: FastTokenizer, name: str, *, threads: int = 0) -> None:
        try:
            session = OnnxGraphSession(graph, threads=threads)
        except EngineError as e:
            raise InputError(f"not an ONNX model ({e})", where=str(graph), remedy="give a sentence encoder") from e
        self._encoder = TextEncoder(session, str(graph))
        self._tokenizer = tokenizer
        self.name = name
        self._encoder.refuse_padding(tokenizer.encode("a lamp").ids[:8] or [0])

    def embed(self, texts: Sequence[str]) -> Embedded:
        """The texts' vectors, in order."""
        encoded = [self._tokenizer.encode(text) for text in texts]
        tokens = tuple(tuple(one.ids[:_LONGEST]) or (0,) for one in encoded)
        return Embedded(unit(self._encoder.encode(tokens)), tokens, self._unknown(tokens))

    def _unknown(self, tokens: Sequence[tuple[int, ...]]) -> float:
        ids = [self._tokenizer.token_to_id(name) for name in ("[UNK]", "<unk>")]
        known = {found for found in ids if found is not None}
        total = sum(map(len, tokens))
        return sum(token in known for one in tokens for token in one) / total if total else 0.0
