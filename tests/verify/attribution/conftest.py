from __future__ import annotations

import pytest

from chipwise.model.model import Model
from tests.quant.decoders import gemma_model, llama_model


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return llama_model(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="session")
def gemma(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return gemma_model(tmp_path_factory.mktemp("gemma"))
