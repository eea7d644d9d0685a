"""A GGUF file as a Model."""

from __future__ import annotations

from pathlib import Path

from chipwise.errors import ModelFormatError
from chipwise.model.importer.gguf_config import gguf_config
from chipwise.model.importer.gguf_header import read_gguf_header
from chipwise.model.importer.gguf_places import gguf_weights
from chipwise.model.importer.gguf_tensors import GgufTensors
from chipwise.model.importer.gguf_tokenizer import gguf_chat_template, gguf_tokenizer
from chipwise.model.model import Model, ModelSource


def load_gguf(path: Path, max_context: int | None = None) -> Model:
    """Read a GGUF file; weights stay in the file until they are asked for.

    Raises:
        ModelFormatError: The file is truncated, incomplete, or holds what is not supported.
    """
    header = read_gguf_header(path)
    parts = header.metadata.get("split.count", 0)
    if isinstance(parts, int) and parts > 1:
        raise ModelFormatError(
            f"the file is one of {parts} parts",
            where=str(path),
            remedy="merge them with `llama-gguf-split --merge`",
        )
    raw = GgufTensors(header)
    config = gguf_config(header, raw, max_context)
    licence = header.metadata.get("general.license")
    return Model(
        source=ModelSource("gguf", path, path.stem, licence if isinstance(licence, str) else None),
        config=config,
        weights=gguf_weights(raw, config),
        tokenizer=gguf_tokenizer(header),
        chat_template=gguf_chat_template(header),
    )
