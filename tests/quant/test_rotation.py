from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from chipwise.model.decoder import names
from chipwise.model.importer.canonical_names import decoder_shapes
from chipwise.quant.rotation import RotatedWeights, can_rotate, rotation
from tests.model.decoder.random_models import case_config
from tests.quant.changed_weights import PROMPTS, Planted, dynamic_graph, feeds_of, logits_of, read_case, scaled
from tests.quant.small_graphs import run

# Biases of q, k and v; norms of q and k; one key head, tied; parts of heads turned by rope; two packed matrices.
CASES = ["llama", "llama_mqa", "llama_mha_tied", "qwen2", "qwen3", "phi3", "phi3_partial"]


def _peak_over_rms(x: np.ndarray) -> float:
    flat = x.reshape(-1, x.shape[-1])
    return float((np.abs(flat).max(1) / np.sqrt(np.square(flat).mean(1))).max())


@settings(max_examples=25)
@given(n=st.integers(1, 200), seed=st.integers(0, 3))
@example(n=1, seed=0)
@example(n=2, seed=0)
@example(n=12, seed=0)
@example(n=96, seed=0)
@example(n=576, seed=0)
def test_a_rotation_keeps_lengths_and_angles(n: int, seed: int) -> None:
    turn = rotation(n, seed)
    assert turn.shape == (n, n)
    assert np.allclose(turn @ turn.T, np.eye(n), atol=1e-12)
    assert np.array_equal(turn, rotation(n, seed))


@pytest.mark.parametrize("n", [64, 96, 576, 896, 960, 1536])
def test_a_channel_alone_spreads_over_all(n: int) -> None:
    """A channel of the whole length comes out with its largest part far below: at most a few times 1 / sqrt(n)."""
    largest = np.abs(rotation(n)).max(1) * np.sqrt(n)
    assert largest.max() < 4
    if n & (n - 1) == 0:
        assert np.allclose(largest, 1)


def test_streams_and_heads_are_turned_by_different_matrices() -> None:
    assert not np.allclose(rotation(64, 0), rotation(64, 1))


@pytest.mark.parametrize("case", CASES)
def test_the_logits_stay(case: str, tmp_path: Path) -> None:
    config, weights = read_case(case, tmp_path)
    assert can_rotate(config)
    turned = RotatedWeights(weights, config)
    before, after = logits_of(config, weights), logits_of(turned.config, turned)
    assert np.abs(before - after).max() < 1e-4 * max(1, np.abs(before).max())
    # They are not the same weights.
    assert not np.allclose(turned.load("model.layers.0.self_attn.q_proj.weight"),
                           weights.load("model.layers.0.self_attn.q_proj.weight"), atol=0.1)  # fmt: skip


@pytest.mark.parametrize("case", ["gemma3", "gemma3_softcap"])
def test_norms_behind_the_products_are_in_the_way(case: str) -> None:
    assert not can_rotate(case_config(case))


@pytest.mark.parametrize("case", ["llama_mqa", "qwen2_sliding"])
def test_names_and_shapes_are_those_of_an_output_layer_of_its_own(case: str, tmp_path: Path) -> None:
    config, weights = read_case(case, tmp_path)
    turned = RotatedWeights(weights, config)
    assert turned.config == replace(config, tied_embeddings=False)
    shapes = decoder_shapes(turned.config)
    assert sorted(turned.names()) == sorted(shapes)
    assert names.LM_HEAD in turned
    assert "model.layers.9.mlp.up_proj.weight" not in turned
    for name, shape in shapes.items():
        info, loaded = turned.info(name), turned.load(name)
        assert info.name == name
        assert info.shape == loaded.shape == shape
        assert (loaded.dtype, info.nbytes) == (np.float32, loaded.nbytes)


@pytest.mark.parametrize("case", ["llama_mqa", "qwen2_sliding"])
def test_rows_are_those_of_the_whole(case: str, tmp_path: Path) -> None:
    config, weights = read_case(case, tmp_path)
    turned = RotatedWeights(weights, config)
    for name in turned.names():
        if len(turned.info(name).shape) == 2:
            assert np.allclose(turned.load_rows(name, 3, 11), turned.load(name)[3:11], atol=1e-6), name


def test_norm_weights_have_moved_into_what_reads_them(tmp_path: Path) -> None:
    config, weights = read_case("qwen3", tmp_path)
    turned = RotatedWeights(weights, config)
    for name in turned.names():
        if name.endswith(("layernorm.weight", "model.norm.weight")):
            assert np.array_equal(turned.load(name), np.ones(config.hidden_size, np.float32))
        if name.endswith(("q_norm.weight", "k_norm.weight")):
            assert np.array_equal(turned.load(name), weights.load(name))


def test_a_channel_that_stands_out_spreads(tmp_path: Path) -> None:
    """One channel of the embedding and of what is added to the stream is 50 times larger."""
    config, plain = read_case("llama", tmp_path)
    up = {"embed_tokens.weight": scaled(7, 50, 1), "o_proj.weight": scaled(7, 50), "down_proj.weight": scaled(7, 50)}
    weights = Planted(plain, up)
    turned = RotatedWeights(weights, config)
    found = []
    for one, source in ((config, weights), (turned.config, turned)):
        model = dynamic_graph(one, source)
        model.graph.outputs.append(
            next(value for node in model.graph for value in node.outputs if value.name == names.layer_output(1))
        )
        outputs = run(model, feeds_of(model, one, PROMPTS[:1])[0])
        found.append((_peak_over_rms(outputs[names.layer_output(1)]), outputs["logits"]))
    (before, logits), (after, turned_logits) = found
    assert before > 6
    assert after < 0.6 * before
    assert np.allclose(logits, turned_logits, atol=1e-3)
