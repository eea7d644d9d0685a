from __future__ import annotations

import pytest

from chipwise.model.importer import load_model
from chipwise.model.model import Model
from tests.model.decoder.random_models import write_folder


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """Grouped heads, an output layer that is the embedding."""
    return load_model(write_folder("llama_mqa", tmp_path_factory.mktemp("llama")))


@pytest.fixture(scope="session")
def gemma(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """Sliding windows, norms of q and k, GELU, a scaled embedding."""
    return load_model(write_folder("gemma3", tmp_path_factory.mktemp("gemma")))
