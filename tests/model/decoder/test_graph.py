from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx.inliner
import onnx_ir as ir
import pytest

from chipwise.model.config import DecoderConfig, RopeConfig
from chipwise.model.decoder import GraphSpec, build_decoder
from chipwise.model.decoder.rope import causal_bias
from chipwise.model.importer import load_model
from tests.model.decoder.random_models import CASES, WINDOW
from tests.model.decoder.sessions import check_session, golden, portable_session

Folder = Callable[[str], Path]


@pytest.mark.parametrize("case", CASES)
def test_dynamic_graphs_answer_as_transformers(case: str, model_folder: Folder, tmp_path: Path) -> None:
    check_session(portable_session(model_folder(case), tmp_path), golden(case))


@pytest.mark.parametrize("case", ["llama_mqa", "gemma3", "phi3_partial"])
def test_static_graphs_answer_as_transformers(case: str, model_folder: Folder, tmp_path: Path) -> None:
    session = portable_session(model_folder(case), tmp_path, prefill=(1, 16, 6), decode=(1, 1, 1))
    assert session.max_step_tokens == 16
    check_session(session, golden(case))


def test_static_decode_of_several_tokens_and_rows(model_folder: Folder, tmp_path: Path) -> None:
    session = portable_session(model_folder("gemma3"), tmp_path, prefill=(1, 16), decode=(4, 5))
    check_session(session, golden("gemma3"))


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_static_graph_is_standard_onnx(phase: str, model_folder: Folder) -> None:
    """Opset 17, every dimension a number, no operator of five dimensions, valid once the functions are inlined."""
    model = load_model(model_folder("gemma3"))
    graph = build_decoder(model.config, model.weights, GraphSpec(phase, 32, 1, 8, 1))
    proto = onnx.inliner.inline_local_functions(ir.to_proto(graph))
    onnx.checker.check_model(proto, full_check=True)
    assert [(entry.domain, entry.version) for entry in proto.opset_import if entry.domain == ""] == [("", 17)]
    assert {node.domain for node in proto.graph.node} == {""}
    shaped = onnx.shape_inference.infer_shapes(proto, strict_mode=True, data_prop=True).graph
    sizes = [dim for value in [*shaped.input, *shaped.value_info] for dim in value.type.tensor_type.shape.dim]
    assert all(dim.HasField("dim_value") for dim in sizes)
    ranks = [len(value.type.tensor_type.shape.dim) for value in [*shaped.input, *shaped.value_info]]
    assert max(ranks) == 4


def test_a_tied_model_holds_its_embedding_once(model_folder: Folder) -> None:
    model = load_model(model_folder("qwen2"))
    graph = build_decoder(model.config, model.weights, GraphSpec("decode", 32)).graph
    large = [name for name, value in graph.initializers.items() if value.shape == (61, 64)]
    assert large == ["model.embed_tokens.weight"]
    assert len(list(graph.initializers["model.embed_tokens.weight"].uses())) == 2


class _Unread:
    """A weight source that knows shapes and must not be read."""

    def __contains__(self, name: object) -> bool:
        return not str(name).endswith("bias")

    def info(self, name: str) -> object:
        return type("Info", (), {"shape": (8,) if name.endswith("norm.weight") else (8, 8)})()

    def load(self, name: str) -> np.ndarray:
        raise AssertionError(f"{name} was read while the graph was built")


def test_building_reads_no_weight() -> None:
    config = DecoderConfig("llama", 8, 8, 8, 2, 1, 1, 8, 64, 1e-5, RopeConfig(1e4, 8))
    graph = build_decoder(config, _Unread(), GraphSpec("decode", 16))
    assert len(graph.graph.initializers) > 18


def test_causal_bias_counts_the_token_itself() -> None:
    bias = causal_bias(20, -64.0, WINDOW)[0, 0]
    assert (bias[19] == 0).sum() == WINDOW
    assert bias[19, 19] == 0
    assert bias[19, 19 - WINDOW] == -64
    assert (bias[3] == 0).sum() == 4


def test_metadata_tells_a_session_what_to_feed(model_folder: Folder) -> None:
    model = load_model(model_folder("phi3"))
    graph = build_decoder(model.config, model.weights, GraphSpec("decode", 32, mask_value=-50.0))
    assert graph.metadata_props == {
        "chipwise.context": "32",
        "chipwise.mask_value": "-50.0",
        "chipwise.sliding_window": str(WINDOW),
    }
