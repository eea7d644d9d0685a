from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import gguf
import numpy as np
import onnx_ir as ir
import pytest
from onnx import helper as oh

from chipwise.engine import Batch, Session
from chipwise.engine.onnxruntime import OnnxRuntimeEngine
from chipwise.errors import InputError, RewriteError
from chipwise.model.decoder import GraphSpec, build_decoder
from chipwise.model.model import Model
from chipwise.quant.hessian import HessianSource
from chipwise.quant.recipe import Recipe, parse_recipe
from chipwise.quant.weight_only import quantize_weights
from chipwise.rewrite.passes.ort_decoder import fuse_decoder
from tests.quant.small_graphs import cosine, graph, linear, run, run_as_served

PROMPT = [5, 9, 4, 7, 33, 12, 8, 8, 40, 2, 19]


def _fused(model: Model) -> ir.Model:
    assert model.config is not None
    return fuse_decoder(build_decoder(model.config, model.weights, GraphSpec("decode", 48)), model.config)


def _session(model: ir.Model, path: Path) -> Session:
    ir.save(model, path, external_data=f"{path.stem}.bin")
    return OnnxRuntimeEngine().open({"decoder": path}, n_slots=2, max_context=48, options={"threads": 1})


def _logits(session: Session) -> np.ndarray:
    return session.step(Batch(0, np.array([PROMPT]), np.array([0]), "all")).logits[0].copy()


@pytest.mark.parametrize(("name", "least"), [("w8a16", 0.999), ("w4a16", 0.95), ("w4a16_g16", 0.96)])
def test_a_quantized_decoder_runs_and_answers_alike(name: str, least: float, even: Model, tmp_path: Path) -> None:
    reference = _session(_fused(even), tmp_path / "reference.onnx")
    wanted = _logits(reference)
    model = _fused(even)
    schemes = quantize_weights(model, parse_recipe(name))
    session = _session(model, tmp_path / "quantized.onnx")
    found = _logits(session)
    assert cosine(found, wanted) > least
    # One token at a time gives what the whole prompt gives.
    for i, token in enumerate(PROMPT):
        step = session.step(Batch(1, np.array([[token]]), np.array([i]))).logits[0]
    assert cosine(step, found[-1]) > 0.999
    assert not any(node.op_type in ("MatMul", "Gemm") for node in model.graph)
    assert {scheme.bits for scheme in schemes.values()} <= {4, 8}


def test_gptq_answers_more_alike_than_rounding(even: Model, tmp_path: Path) -> None:
    reference = _session(_fused(even), tmp_path / "reference.onnx")
    wanted = _logits(reference)
    losses = {}
    for kind in ("rounded", "gptq"):
        model = _fused(even)
        source = HessianSource(tmp_path / "reference.onnx", [PROMPT], threads=1) if kind == "gptq" else None
        quantize_weights(model, parse_recipe("w4a16"), hessians=source)
        losses[kind] = float(np.square(_logits(_session(model, tmp_path / f"{kind}.onnx")) - wanted).mean())
    assert losses["gptq"] < losses["rounded"]


def test_a_matrix_that_plays_two_parts_is_stored_once_if_its_bits_are_the_same(even: Model) -> None:
    stored = {}
    for head_bits in (8, 4):
        model = _fused(even)
        quantize_weights(model, replace(parse_recipe("w8a16"), head_bits=head_bits))
        stored[head_bits] = [name for name in model.graph.initializers if "embed" in name or "lm_head" in name]
    assert sum("scales" in name for name in stored[8]) == 1
    assert sum("scales" in name for name in stored[4]) == 2


def _recipe(name: str) -> Recipe:
    return parse_recipe(name)


def test_a_group_that_does_not_divide() -> None:
    weight = np.random.default_rng(0).normal(size=(48, 8)).astype(np.float32)
    model = linear(weight)
    assert quantize_weights(model, _recipe("w8a16"))["w"].group_size == 16
    x = np.random.default_rng(1).normal(size=(3, 48)).astype(np.float32)
    assert cosine(run(model, {"x": x})["y"], x @ weight) > 0.999
    with pytest.raises(InputError, match="w: 48 input channels are no multiple of the group of 32 in w8a16_g32"):
        quantize_weights(linear(weight), _recipe("w8a16_g32"))
    assert quantize_weights(linear(weight), _recipe("w8a16_g16"))["w"].group_size == 16


def test_no_group_fits() -> None:
    with pytest.raises(RewriteError, match="36 input channels are no multiple of 16"):
        quantize_weights(linear(np.ones((36, 4))), _recipe("w4a16"))


def test_float32_activations_are_exact() -> None:
    weight = np.random.default_rng(0).normal(size=(64, 48)).astype(np.float32)
    x = np.random.default_rng(1).normal(size=(3, 64)).astype(np.float32)
    exact, quick = linear(weight), linear(weight)
    quantize_weights(exact, _recipe("w4a16_g32"), accuracy_level=1)
    quantize_weights(quick, _recipe("w4a16_g32"))
    dense = run(exact, {"x": np.eye(64, dtype=np.float32)})["y"]
    assert np.allclose(run(exact, {"x": x})["y"], x @ dense, atol=1e-4)
    # The quick kernel rounds activations to 8 bits a block.
    assert np.abs(run_as_served(quick, {"x": x})[0]["y"] - x @ dense).max() > 1e-3
    assert np.allclose(run_as_served(exact, {"x": x})[0]["y"], x @ dense, atol=1e-4)


@pytest.mark.parametrize("stored_as_rows", [True, False])
@pytest.mark.parametrize("with_bias", [True, False])
def test_a_gemm_keeps_its_bias(stored_as_rows: bool, with_bias: bool) -> None:
    rng = np.random.default_rng(0)
    weight, bias = rng.normal(size=(64, 8)).astype(np.float32), (10 * rng.normal(size=8)).astype(np.float32)
    x = rng.normal(size=(3, 64)).astype(np.float32)
    constants = {"w": np.ascontiguousarray(weight.T) if stored_as_rows else weight} | ({"b": bias} if with_bias else {})
    node = oh.make_node("Gemm", ["x", *constants], ["y"], transB=int(stored_as_rows))
    model = graph([node], {"x": [3, 64]}, {"y": [3, 8]}, constants)
    assert list(quantize_weights(model, _recipe("w8a16"), accuracy_level=1)) == ["w"]
    wanted = x @ weight + (bias if with_bias else 0)
    assert np.allclose(run(model, {"x": x})["y"], wanted, atol=0.3)


@pytest.mark.parametrize("attributes", [{"alpha": 2.0}, {"beta": 0.5}, {"transA": 1}])
def test_a_gemm_that_is_more_than_a_product_stays(attributes: dict[str, float]) -> None:
    weight = np.ones((64, 64), np.float32)
    node = oh.make_node("Gemm", ["x", "w", "b"], ["y"], **attributes)
    model = graph([node], {"x": [64, 64]}, {"y": [64, 64]}, {"w": weight, "b": np.ones(64, np.float32)})
    assert quantize_weights(model, _recipe("w8a16")) == {}


def _on_grid(shape: tuple[int, int], seed: int = 0) -> np.ndarray:
    """A weight ``[in, out]`` as a Q4_1 file gives it."""
    kind = gguf.GGMLQuantizationType.Q4_1
    rows = np.random.default_rng(seed).normal(0, 0.1, shape[::-1]).astype(np.float32)
    stored = gguf.quants.dequantize(gguf.quants.quantize(rows, kind), kind).reshape(rows.shape)
    return np.ascontiguousarray(stored.T, dtype=np.float32)


def test_weights_in_4_bits_already_are_kept() -> None:
    q, k, dense = _on_grid((96, 40)), _on_grid((96, 24), seed=1), np.random.default_rng(2).normal(size=(96, 8))
    constants = {"q": q, "k": k, "dense": dense.astype(np.float32)}
    nodes = [oh.make_node("MatMul", ["x", name], [f"y_{name}"]) for name in constants]
    shapes = {f"y_{name}": [2, 3, weight.shape[1]] for name, weight in constants.items()}
    model = graph(nodes, {"x": [2, 3, 96]}, shapes, constants)
    schemes = quantize_weights(model, _recipe("w4a16"), keep_grids=True)
    assert {name: scheme.as_given for name, scheme in schemes.items()} == {"q": True, "k": True, "dense": False}
    # The sums of x serve both weights that need them.
    assert sorted(node.op_type for node in model.graph) == ["Concat", *["MatMulNBits"] * 3, "ReduceSum", "Reshape"]
    x = np.random.default_rng(3).normal(size=(2, 3, 96)).astype(np.float32)
    found = run_as_served(model, {"x": x})[0]
    for name, weight in (("q", q), ("k", k)):
        anew = graph([oh.make_node("MatMul", ["x", "w"], ["y"])], {"x": [2, 3, 96]}, {"y": None}, {"w": weight})
        quantize_weights(anew, _recipe("w4a16"))
        error, before = (
            np.abs(y - x @ weight).mean() for y in (found[f"y_{name}"], run_as_served(anew, {"x": x})[0]["y"])
        )
        assert error < before / 3


def test_a_grid_with_whole_zero_points_needs_no_further_columns() -> None:
    kind = gguf.GGMLQuantizationType.Q4_0
    rows = np.random.default_rng(0).normal(0, 0.1, (40, 96)).astype(np.float32)
    weight = gguf.quants.dequantize(gguf.quants.quantize(rows, kind), kind).reshape(rows.shape).T.astype(np.float32)
    node = oh.make_node("MatMul", ["x", "w"], ["y"])
    model = graph([node], {"x": [1, 3, 96]}, {"y": [1, 3, 40]}, {"w": np.ascontiguousarray(weight)})
    assert quantize_weights(model, _recipe("w4a16"), keep_grids=True, accuracy_level=1)["w"].as_given
    assert [node.op_type for node in model.graph] == ["MatMulNBits"]
    x = np.random.default_rng(3).normal(size=(1, 3, 96)).astype(np.float32)
    assert np.allclose(run(model, {"x": x})["y"], x @ weight, atol=1e-4)


def test_a_gemm_on_a_grid_keeps_weight_and_bias() -> None:
    weight, bias = _on_grid((64, 8)), np.arange(8, dtype=np.float32)
    node = oh.make_node("Gemm", ["x", "w", "b"], ["y"])
    model = graph([node], {"x": [3, 64]}, {"y": [3, 8]}, {"w": weight, "b": bias})
    assert quantize_weights(model, _recipe("w4a16"), keep_grids=True, accuracy_level=1)["w"].as_given
    x = np.random.default_rng(3).normal(size=(3, 64)).astype(np.float32)
    assert np.allclose(run(model, {"x": x})["y"], x @ weight + bias, atol=0.03)


@pytest.mark.parametrize("name", ["w4a16_g64", "w4a16_g16", "w8a16"])
def test_other_groups_and_widths_quantize_anew(name: str) -> None:
    model = linear(_on_grid((64, 8)))
    assert not any(scheme.as_given for scheme in quantize_weights(model, _recipe(name), keep_grids=True).values())
