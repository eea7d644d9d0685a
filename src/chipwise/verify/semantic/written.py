"""An encoder in safetensors, written as ONNX with our own importer. Host side only."""

from __future__ import annotations

from pathlib import Path

from chipwise.errors import InputError
from chipwise.model.config import EncoderConfig
from chipwise.model.encoder import EncoderSpec, build_encoder
from chipwise.model.importer import load_model
from chipwise.model.onnx_file_writer import save_graph


def write_encoder(source: Path, folder: Path) -> Path:
    """Write the encoder of a Hugging Face folder as ONNX.

    Args:
        source: The folder, with config.json.
        folder: Where the graph and its weights go.

    Returns:
        The graph's file.

    Raises:
        InputError: It is no encoder.
        OutputError: The disk is full.
    """
    model = load_model(source)
    if not isinstance(model.config, EncoderConfig) or model.weights is None:
        raise InputError("not an encoder", where=str(source), remedy="give a sentence-embedding model, e.g. MiniLM")
    return save_graph(build_encoder(model.config, model.weights, EncoderSpec()), folder, "embedder").path
