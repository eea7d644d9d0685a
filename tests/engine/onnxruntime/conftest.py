"""One small model with windows, norms and grouped heads, opened in every way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from chipwise.engine import Session
from chipwise.engine.onnxruntime import OnnxRuntimeEngine
from chipwise.model.decoder import GraphSpec
from tests.model.decoder.random_models import write_folder
from tests.model.decoder.sessions import CONTEXT, fused_file, write_graph

Files = dict[str, Path]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder("gemma3", tmp_path_factory.mktemp("gemma3"))


@pytest.fixture(scope="session")
def graph_files(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Files]:
    """The model as a fused graph, as dynamic portable graphs, and as static ones."""
    root = tmp_path_factory.mktemp("graphs")
    return {
        "fused": {"decoder": fused_file(folder, root)},
        "dynamic": {
            "prefill": write_graph(folder, root / "prefill.onnx", GraphSpec("prefill", CONTEXT)),
            "decode": write_graph(folder, root / "decode.onnx", GraphSpec("decode", CONTEXT)),
        },
        "static": {
            "prefill": write_graph(folder, root / "prefill_static.onnx", GraphSpec("prefill", CONTEXT, 1, 32)),
            "decode": write_graph(folder, root / "decode_static.onnx", GraphSpec("decode", CONTEXT, 2, 1, 2)),
        },
    }


@pytest.fixture(params=["fused", "dynamic", "static"])
def session(request: pytest.FixtureRequest, graph_files: dict[str, Files]) -> Iterator[Session]:
    """Every form of the model, one after the other."""
    files = graph_files[request.param]
    opened = OnnxRuntimeEngine().open(files, n_slots=3, max_context=CONTEXT, options={"threads": 1})
    yield opened
    opened.close()
