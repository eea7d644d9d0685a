from __future__ import annotations

from dataclasses import replace

import pytest

from chipwise.model.config import DecoderConfig
from chipwise.model.importer import load_model
from chipwise.model.model import Model
from tests.model.decoder.random_models import write_folder
from tests.quant.random_weights import RandomWeights


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """Grouped heads, an output layer that is the embedding."""
    return load_model(write_folder("llama_mqa", tmp_path_factory.mktemp("llama")))


@pytest.fixture(scope="session")
def even(llama: Model) -> Model:
    """A decoder whose channels are multiples of 32 throughout."""
    assert isinstance(llama.config, DecoderConfig)
    config = replace(llama.config, ffn_size=96)
    return replace(llama, config=config, weights=RandomWeights(config))


@pytest.fixture(scope="session")
def gemma(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """Sliding windows, norms of q and k, GELU, a scaled embedding."""
    return load_model(write_folder("gemma3", tmp_path_factory.mktemp("gemma")))
