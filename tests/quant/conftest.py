from __future__ import annotations

import pytest

from chipwise.model.model import Model
from tests.quant.decoders import even_model, gemma_model, llama_model


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return llama_model(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="session")
def even(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return even_model(tmp_path_factory.mktemp("even"))


@pytest.fixture(scope="session")
def gemma(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return gemma_model(tmp_path_factory.mktemp("gemma"))
