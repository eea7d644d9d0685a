from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import onnx_ir as ir
import pytest

from chipwise.errors import RewriteError
from chipwise.model.config import RopeConfig
from chipwise.model.decoder import GraphSpec, build_decoder
from chipwise.model.importer import load_model
from chipwise.rewrite.passes.ort_decoder import fuse_decoder
from tests.model.decoder.random_models import CASES, WINDOW, write_folder
from tests.model.decoder.sessions import check_session, fused_session, golden


def _fused(case: str, folder: Path) -> ir.Model:
    model = load_model(write_folder(case, folder))
    return fuse_decoder(build_decoder(model.config, model.weights, GraphSpec("decode", 32)), model.config)


@pytest.mark.parametrize("case", CASES)
def test_fused_graph_answers_as_transformers(case: str, tmp_path: Path) -> None:
    check_session(fused_session(write_folder(case, tmp_path / "model"), tmp_path), golden(case))


def test_everything_fuses_in_a_plain_model(tmp_path: Path) -> None:
    graph = _fused("llama", tmp_path).graph
    assert Counter(node.op_type for node in graph) == {
        "GroupQueryAttention": 2,
        "MatMul": 9,  # qkv, output, gate and up, down in each layer, and the head
        "SkipSimplifiedLayerNormalization": 4,
        "SimplifiedLayerNormalization": 1,
        "QuickGelu": 2,
        "Mul": 2,
        "Split": 2,
        "Reshape": 1,
        "Gather": 2,
    }
    assert [value.name for value in graph.inputs] == [
        "input_ids", "output_rows",
        *(f"past.{layer}.{part}" for layer in range(2) for part in ("key", "value")),
        "seqlens_k", "total_sequence_length",
    ]  # fmt: skip


def test_norms_of_q_and_k_and_odd_rotary_sizes_stay_outside_the_operator(tmp_path: Path) -> None:
    counts = Counter(node.op_type for node in _fused("qwen3", tmp_path).graph)
    assert counts["RotaryEmbedding"] == counts["GroupQueryAttention"] * 2 == 4
    assert counts["SimplifiedLayerNormalization"] == 5
    assert counts["Range"] == 1, "positions are counted once"


def test_windows_need_a_runtime_that_counts_as_the_model_does(tmp_path: Path) -> None:
    plain, sliding = _fused("llama", tmp_path / "plain"), _fused("gemma3", tmp_path / "sliding")
    assert "chipwise.min_onnxruntime" not in plain.metadata_props
    assert sliding.metadata_props["chipwise.min_onnxruntime"] == "1.24"
    calls = [node for node in sliding.graph if node.op_type == "GroupQueryAttention"]
    assert [call.attributes.get_int("local_window_size", -1) for call in calls] == [WINDOW, -1, WINDOW]
    tables = [(call.inputs[7].name, call.inputs[8].name) for call in calls]
    assert tables[0] == tables[2] == ("rope_cos_local", "rope_sin_local")
    assert tables[1] == ("rope_cos", "rope_sin")


def test_heads_of_a_size_the_operator_refuses(tmp_path: Path) -> None:
    model = load_model(write_folder("llama", tmp_path))
    odd = replace(model.config, head_dim=12, rope=RopeConfig(1e4, 12))
    with pytest.raises(RewriteError, match=r"heads of 12 channels.*multiples of 8.*portable"):
        fuse_decoder(build_decoder(odd, model.weights, GraphSpec("decode", 32)), odd)


@pytest.mark.parametrize(
    ("spec", "message"),
    [(GraphSpec("prefill", 32), "no KV cache"), (GraphSpec("decode", 32, 1, 1), "shapes are fixed")],
)
def test_only_a_dynamic_decode_graph_is_fused(spec: GraphSpec, message: str, tmp_path: Path) -> None:
    model = load_model(write_folder("llama", tmp_path))
    with pytest.raises(RewriteError, match=message):
        fuse_decoder(build_decoder(model.config, model.weights, spec), model.config)
