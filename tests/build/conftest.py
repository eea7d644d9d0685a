from __future__ import annotations

from pathlib import Path

import pytest

from chipwise.model.model import Model
from tests.build.models import write_decoder, write_encoder, write_images, write_net, write_queries
from tests.quant.decoders import even_model, gemma_model


@pytest.fixture(scope="session")
def even(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return even_model(tmp_path_factory.mktemp("even"))


@pytest.fixture(scope="session")
def gemma(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return gemma_model(tmp_path_factory.mktemp("gemma"))


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``decoder``, ``encoder``, ``net.onnx``, ``images.npz`` and ``queries.jsonl`` in one folder; not to be changed."""
    folder = tmp_path_factory.mktemp("files")
    write_decoder(folder / "decoder")
    write_encoder(folder / "encoder")
    write_net(folder / "net.onnx")
    write_images(folder / "images.npz")
    write_queries(folder / "queries.jsonl")
    return folder
