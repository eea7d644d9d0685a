from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from chipwise.model.config import DecoderConfig
from chipwise.model.weights import WeightSource
from chipwise.quant.calibration import tapped
from chipwise.quant.feed_forward_equalization import EqualizedWeights, feed_forward_factors
from chipwise.quant.product_groups import product_groups
from chipwise.rewrite.runner import Runner
from tests.quant.changed_weights import Planted, dynamic_graph, feeds_of, logits_of, read_case, scaled

DOWN = ["model.layers.0.mlp.down_proj.weight", "model.layers.1.mlp.down_proj.weight"]


def _equalized(config: DecoderConfig, weights: WeightSource) -> EqualizedWeights:
    model = dynamic_graph(config, weights)
    return EqualizedWeights(weights, feed_forward_factors(model, feeds_of(model, config), threads=1))


def _peaks(config: DecoderConfig, weights: WeightSource) -> list[np.ndarray]:
    """The largest magnitude of each channel that the down_proj of each layer reads."""
    model = dynamic_graph(config, weights)
    values = [group.value for group in product_groups(model) if group.weights[0] in DOWN]
    runner = Runner(tapped(model, values), threads=1)
    known = runner.input_names
    found = [runner.run({k: v for k, v in feed.items() if k in known}) for feed in feeds_of(model, config)]
    return [np.max([np.abs(one[value]).reshape(-1, config.ffn_size).max(0) for one in found], 0) for value in values]


@pytest.mark.parametrize("case", ["llama", "llama_mqa", "qwen2", "gemma3", "phi3"])
def test_the_logits_stay(case: str, tmp_path: Path) -> None:
    config, plain = read_case(case, tmp_path)
    weights = Planted(plain, {"0.mlp.up_proj.weight": scaled(5, 30)})
    before, after = logits_of(config, weights), logits_of(config, _equalized(config, weights))
    assert np.abs(before - after).max() < 1e-4 * max(1, np.abs(before).max())


def test_the_channel_that_stands_out_comes_halfway_down(tmp_path: Path) -> None:
    config, plain = read_case("llama", tmp_path)
    weights = Planted(plain, {"0.mlp.up_proj.weight": scaled(5, 100)})
    (before, other), (after, other_after) = _peaks(config, weights), _peaks(config, _equalized(config, weights))
    middle = np.median(before)
    assert before.argmax() == 5
    assert before.max() > 50 * middle
    assert after[5] == pytest.approx(np.sqrt(before[5] * middle), rel=1e-4)
    # Small channels are not made larger, or their steps would get lost elsewhere.
    assert np.allclose(after[before < middle], before[before < middle], rtol=1e-4)
    # In layer 1 nothing was planted; it is equalized for itself.
    assert other_after.max() < other.max()


def test_factors_are_one_a_channel_and_never_below_one(tmp_path: Path) -> None:
    config, weights = read_case("llama", tmp_path)
    model = dynamic_graph(config, weights)
    before = [str(value.name) for value in model.graph.outputs]
    found = feed_forward_factors(model, feeds_of(model, config), threads=1)
    assert list(found) == DOWN
    for factors in found.values():
        assert (factors.shape, factors.dtype) == ((config.ffn_size,), np.float32)
        assert factors.min() == 1
    assert [str(value.name) for value in model.graph.outputs] == before


@pytest.mark.parametrize("dead", ["0.mlp.up_proj.weight", "0.mlp.gate_proj.weight"])
def test_a_feed_forward_part_that_computes_nothing(dead: str, tmp_path: Path) -> None:
    config, plain = read_case("llama", tmp_path)
    weights = Planted(plain, {dead: np.zeros_like})
    equalized = _equalized(config, weights)
    assert np.array_equal(equalized.load(DOWN[0]), weights.load(DOWN[0]))
    assert np.allclose(logits_of(config, weights), logits_of(config, equalized), atol=1e-4)


def test_all_but_a_few_channels_are_dead(tmp_path: Path) -> None:
    """The median is zero then: there is nothing to come down to."""
    config, plain = read_case("llama", tmp_path)

    def few(matrix: np.ndarray) -> np.ndarray:
        matrix[3:] = 0
        return matrix

    weights = Planted(plain, {"0.mlp.up_proj.weight": few})
    equalized = _equalized(config, weights)
    assert np.isfinite(equalized.load(DOWN[0])).all()
    assert np.allclose(logits_of(config, weights), logits_of(config, equalized), atol=1e-4)


def test_rows_names_and_all_other_weights(tmp_path: Path) -> None:
    config, plain = read_case("llama", tmp_path)
    weights = Planted(plain, {"0.mlp.up_proj.weight": scaled(5, 30)})
    equalized = _equalized(config, weights)
    assert list(equalized.names()) == list(weights.names())
    assert DOWN[0] in equalized
    assert "lm_head.bias" not in equalized
    changed = set()
    for name in equalized.names():
        loaded = equalized.load(name)
        assert (equalized.info(name), loaded.dtype) == (weights.info(name), np.float32)
        if loaded.ndim == 2:
            assert np.array_equal(equalized.load_rows(name, 2, 7), loaded[2:7])
        if not np.array_equal(loaded, weights.load(name)):
            changed.add(name.rsplit(".", 2)[-2])
    assert changed == {"up_proj", "down_proj"}
