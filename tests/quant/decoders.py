"""Small decoders, each with what the others have not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from chipwise.model.config import DecoderConfig
from chipwise.model.importer import load_model
from chipwise.model.model import Model
from tests.model.decoder.random_models import write_folder
from tests.quant.random_weights import RandomWeights


def llama_model(folder: Path) -> Model:
    """One key head, an output layer that is the embedding."""
    return load_model(write_folder("llama_mqa", folder))


def even_model(folder: Path) -> Model:
    """A decoder whose channels are multiples of 32 throughout."""
    model = llama_model(folder)
    assert isinstance(model.config, DecoderConfig)
    config = replace(model.config, ffn_size=96)
    return replace(model, config=config, weights=RandomWeights(config))


def gemma_model(folder: Path) -> Model:
    """Sliding windows, norms of q and k, GELU, a scaled embedding."""
    return load_model(write_folder("gemma3", folder))
