from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.blocks import OUTLIERS, write_block
from chipwise.build.attempt import Attempt
from chipwise.build.compiled_graph import CompiledGraph
from chipwise.build.graph_file import GraphFile
from chipwise.build.repair_report import kept_in_float16, layer_losses
from chipwise.model.rknn_file import read_rknn_file
from chipwise.quant.recipe import parse_recipe
from chipwise.toolchain.placement import Placement, Segment
from chipwise.toolchain.rknn_accuracy import read_accuracy
from chipwise.toolchain.rknn_log import RknnLayer

TESTS = Path(__file__).parent.parent


def layer(op_type: str, name: str, dtype: str, cycles: int) -> RknnLayer:
    return RknnLayer(0, op_type, dtype, "NPU", (), (), True, 0, cycles, cycles, 0, f"{op_type}:{name}")


def compiled(path: Path, *layers: RknnLayer) -> CompiledGraph:
    table = (TESTS / "toolchain" / "rknn_logs" / "outliers_rk3588_w8a8.error_analysis.txt").read_text("utf-8")
    file = read_rknn_file(TESTS / "model" / "rknn" / "conv_rk3566_w8a8.rknn")
    placement = Placement((Segment("NPU", layers),), (), None, None)
    return CompiledGraph(path, path, file, ({},), (placement,), (), 1.0, 1, read_accuracy(table))


@pytest.fixture(scope="module")
def block(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_block(tmp_path_factory.mktemp("block") / "block.onnx", OUTLIERS)


def test_layers_have_the_type_they_compute_in(block: Path) -> None:
    made = compiled(
        block,
        layer("ConvExSwish", "layers.0.mlp.gate#2", "INT8", 10),
        layer("exSDPAttention", "layers.0.attn.mixed_2sdpa", "FLOAT16", 0),
        layer("Reshape", "layers.0.attn.mixed_t_sw", "INT8", 0),
    )
    found = {one.name: one for one in layer_losses(made)}
    assert len(found) == 43
    assert found["layers.0.mlp.gate_mm"].dtype == "INT8"
    assert found["layers.0.attn.mixed_sdpa"].dtype == "FLOAT16"
    assert found["layers.0.attn.mixed_t_sw"].dtype == "INT8"
    assert found["x_rs"].dtype == ""
    assert found["layers.0.mlp.product-rs"].own_cosine == 0.9954


def test_what_float16_costs(block: Path) -> None:
    plain = compiled(block, layer("Conv", "layers.0.mlp.down#2_ConvAdd", "INT8", 100))
    kept = compiled(block, layer("Conv", "layers.0.mlp.down#2", "FLOAT16", 350), layer("exDataConvert", "z", "INT8", 5))
    attempt = Attempt(
        parse_recipe("w8a8"), GraphFile(block, None), float16=("layers.0.mlp.down", "layers.0.mlp.product")
    )
    down, product = kept_in_float16(attempt, kept, plain)
    assert (down.extra_bytes, down.extra_cycles) == (32 * 256 + 512 * 256, 250)
    assert (product.extra_bytes, product.extra_cycles) == (32 * 512, None)
    assert kept_in_float16(Attempt(parse_recipe("w8a8"), GraphFile(block, None)), kept, plain) == ()
