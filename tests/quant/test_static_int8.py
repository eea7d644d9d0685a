from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_ir as ir
import pytest
from onnx import helper as oh

from chipwise.errors import RewriteError
from chipwise.model.decoder import GraphSpec, build_decoder, names
from chipwise.model.model import Model
from chipwise.quant.affine import affine
from chipwise.quant.calibration import ValueRange, calibrate
from chipwise.quant.int_weights import IntGrid, integers
from chipwise.quant.static_int8 import cpu_grid, quantize_channels, quantize_static_int8, quantized_values
from chipwise.rewrite.decoder_feeds import prompt_feed
from chipwise.rewrite.passes.ort_decoder import fuse_decoder
from chipwise.target import Target, load_target
from tests.quant.small_graphs import INT64, cosine, graph, linear, run, run_as_served

RNG = np.random.default_rng(3)


def _fused(model: Model) -> ir.Model:
    assert model.config is not None
    return fuse_decoder(build_decoder(model.config, model.weights, GraphSpec("decode", 48)), model.config)


@pytest.mark.parametrize("signed", [True, False])
def test_a_product_runs_in_integers(signed: bool) -> None:
    weight, x = RNG.normal(size=(64, 32)).astype(np.float32), RNG.normal(size=(5, 64)).astype(np.float32)
    model = linear(weight)
    quantize_static_int8(model, {"x": ValueRange(-3, 3)}, IntGrid(), signed=signed)
    found, ran = run_as_served(model, {"x": x})
    assert "MatMulIntegerToFloat" in ran
    assert "MatMul" not in ran
    q, scale = integers(weight, 1, IntGrid())
    assert np.allclose(found["y"], affine(-3, 3, signed=signed).round_trip(x) @ (q * scale), atol=1e-4)


def test_a_fused_decoder_runs_every_product_in_integers(llama: Model) -> None:
    model = _fused(llama)
    feeds = [prompt_feed(model.graph, RNG.integers(3, 60, 20).tolist()) for _ in range(3)]
    wanted = run(model, feeds[0])["logits"]
    products = [node for node in model.graph if node.op_type in ("MatMul", "Gemm")]
    ranges = calibrate(model, feeds, quantized_values(model))
    schemes = quantize_static_int8(model, ranges, IntGrid(), signed=False)
    assert {scheme.dtype for scheme in schemes.values()} == {"int8"}
    found, ran = run_as_served(model, feeds[0])
    assert cosine(found["logits"], wanted) > 0.99
    assert ran.count("MatMulIntegerToFloat") + ran.count("QGemm") == len(products)
    assert not {"MatMul", "Gemm", "FusedMatMul"} & set(ran)


def test_a_table_is_looked_up_as_integers() -> None:
    table = RNG.normal(size=(4096, 16)).astype(np.float32) * np.logspace(-3, 3, 4096, dtype=np.float32)[:, None]
    for per_channel, least in ((True, 0.9999), (False, 0.99)):
        node = oh.make_node("Gather", ["t", "ids"], ["y"])
        model = graph([node], {"ids": [2, 3]}, {"y": [2, 3, 16]}, {"t": table}, types={"ids": INT64})
        schemes = quantize_channels(model, IntGrid(8, per_channel))
        assert schemes["t"].axis == (0 if per_channel else None)
        ids = np.array([[0, 1, 4000], [4095, 7, 7]])
        found = run(model, {"ids": ids})["y"]
        assert cosine(found, table[ids]) > least
        # A scale a row keeps the small rows; one for all loses them.
        assert bool(found[0, 0].any()) == per_channel
        assert "t" not in model.graph.initializers


def test_small_tables_and_other_gathers_stay() -> None:
    nodes = [
        oh.make_node("Gather", ["small", "ids"], ["a"]),
        oh.make_node("Gather", ["wide", "ids"], ["b"], axis=1),
        oh.make_node("Gather", ["wide", "fixed"], ["c"]),
    ]
    constants = {
        "small": np.ones((10, 10), np.float32),
        "wide": np.ones((300, 300), np.float32),
        "fixed": np.array([1, 2]),
    }
    model = graph(nodes, {"ids": [2]}, {"a": [2, 10], "b": [300, 2], "c": [2, 300]}, constants, types={"ids": INT64})
    assert quantize_channels(model, IntGrid()) == {}


def test_an_embedding_that_is_the_output_layer_is_stored_once(llama: Model) -> None:
    assert llama.config is not None
    model = _fused(llama)
    # Its table is below what is worth quantizing by itself.
    table = model.graph.initializers[names.EMBEDDING]
    assert table.const_value is not None
    schemes = quantize_channels(model, IntGrid())
    stored = [name for name in model.graph.initializers if name.startswith((names.EMBEDDING, names.LM_HEAD))]
    assert names.LM_HEAD in schemes or names.EMBEDDING in schemes
    assert sum(name.endswith(".packed") for name in stored) == 1


def test_an_input_that_was_not_calibrated() -> None:
    with pytest.raises(RewriteError, match="value x: it was not calibrated"):
        quantize_static_int8(linear(np.ones((4, 4))), {}, IntGrid(), signed=True)


def _with_features(*features: str) -> Target:
    known = load_target("cortex-a76")
    unit = replace(known.units[0], kind="cpu", features=features)
    return Target(replace(known.chip, units=(unit,), modes=()))


@pytest.mark.parametrize(
    ("features", "spare_bit", "signed"),
    [
        (("avx2", "fma"), True, False),
        (("avx2", "avx512f", "avx512_vnni"), False, False),
        (("avx2", "avx_vnni"), False, False),
        (("asimd", "asimddp"), False, True),
        ((), False, True),
    ],
)
def test_integers_for_the_processor(features: tuple[str, ...], spare_bit: bool, signed: bool) -> None:
    grid, found = cpu_grid(_with_features(*features), per_channel=True)
    assert (grid.spare_bit, found) == (spare_bit, signed)
