"""Model: what an importer returns, wherever it came from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from chipwise.model.chat_template import ChatTemplate
from chipwise.model.config import DecoderConfig, EncoderConfig
from chipwise.model.tokenizer import Tokenizer
from chipwise.model.weights import WeightSource


@dataclass(frozen=True)
class ModelSource:
    """Where a model came from.

    Attributes:
        kind: ``huggingface``, ``gguf`` or ``onnx``.
        path: The file or folder.
        name: A short name for people, e.g. ``SmolLM2-135M-Instruct``.
        licence: The licence the model says it has, e.g. ``apache-2.0``; None if it says nothing.
    """

    kind: Literal["huggingface", "gguf", "onnx"]
    path: Path
    name: str
    licence: str | None = None


@dataclass(frozen=True)
class Model:
    """A model as it was read: nothing converted yet.

    Attributes:
        source: Where it came from.
        config: The architecture; None for an ONNX file.
        weights: The weights by canonical name; None for an ONNX file.
        tokenizer: The tokenizer; None if the source has none.
        chat_template: The chat template; None if the source has none.
        onnx_path: The ONNX file, for a model that is a graph already.
    """

    source: ModelSource
    config: DecoderConfig | EncoderConfig | None = None
    weights: WeightSource | None = None
    tokenizer: Tokenizer | None = None
    chat_template: ChatTemplate | None = None
    onnx_path: Path | None = None
