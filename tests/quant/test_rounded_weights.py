from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from chipwise.model.config import DecoderConfig
from chipwise.model.decoder import names
from chipwise.model.weights import WeightInfo, WeightSource
from chipwise.quant import rounded_weights
from chipwise.quant.calibration import tapped
from chipwise.quant.channel_rounding import GroupWeight, round_channels
from chipwise.quant.product_groups import ProductGroup, product_groups
from chipwise.quant.rounded_weights import RoundedWeights, round_products
from chipwise.rewrite.runner import Runner
from tests.quant.changed_weights import dynamic_graph, feeds_of, logits_of, read_case

Decoder = tuple[DecoderConfig, WeightSource, ir.Model, list[dict]]


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Decoder:
    config, weights = read_case("llama_mqa", tmp_path_factory.mktemp("rounded"))
    model = dynamic_graph(config, weights)
    prompts = np.random.default_rng(1).integers(3, config.vocab_size, (12, 40)).tolist()
    return config, weights, model, feeds_of(model, config, prompts)


def _rounded(
    decoder: Decoder, groups: list[ProductGroup] | None = None, group_size: int | None = None
) -> tuple[dict, list[tuple[int, int]]]:
    _, weights, model, feeds = decoder
    told: list[tuple[int, int]] = []
    found = round_products(
        model, weights, product_groups(model) if groups is None else groups, feeds,
        group_size=group_size, threads=1, progress=lambda *of: told.append(of),
    )  # fmt: skip
    return found, told


def test_each_product_is_rounded_by_what_it_reads(decoder: Decoder) -> None:
    """The Hessian of the first group is that of its input, over all tokens of all texts."""
    _, weights, model, feeds = decoder
    group = product_groups(model)[0]
    runner = Runner(tapped(model, [group.value]), threads=1)
    known = runner.input_names
    read = [runner.run({k: v for k, v in feed.items() if k in known})[group.value][0] for feed in feeds]
    x = np.concatenate(read)
    found, told = _rounded(decoder, [group])
    assert told == [(1, 1)]
    assert list(found) == list(group.weights)
    for name in group.weights:
        wanted = round_channels(weights.load(name), x.T @ x)
        assert np.mean(wanted.values != found[name].values) < 0.01
        matrix = weights.load(name)
        nearest = round_channels(matrix, None).dense()
        ours, theirs = (np.square(x @ (one - matrix).T).mean() for one in (found[name].dense(), nearest))
        assert ours < theirs


def test_parts_that_fit_the_memory_find_the_same(decoder: Decoder, monkeypatch: pytest.MonkeyPatch) -> None:
    at_once, _ = _rounded(decoder)
    monkeypatch.setattr(rounded_weights, "_MAX_BYTES", 4 * 64 * 64)
    in_parts, told = _rounded(decoder)
    assert [done for done, _ in told] == list(range(1, told[0][1] + 1))
    assert list(in_parts) == list(at_once)
    assert all(np.array_equal(in_parts[name].values, at_once[name].values) for name in at_once)


def test_the_model_answers_nearly_as_before(decoder: Decoder) -> None:
    config, weights, _, _ = decoder
    rounded = RoundedWeights(weights, _rounded(decoder)[0])
    before, after = logits_of(config, weights), logits_of(replace(config, tied_embeddings=False), rounded)
    assert 0 < np.abs(before - after).max() < 0.1 * np.abs(before).max()


def test_names_rows_and_what_is_not_rounded(decoder: Decoder) -> None:
    _, weights, model, _ = decoder
    found, _ = _rounded(decoder, product_groups(model)[2:3])
    rounded = RoundedWeights(weights, found)
    assert list(rounded.names()) == list(weights.names())
    assert "model.norm.weight" in rounded
    assert "nothing" not in rounded
    for name in rounded.names():
        loaded = rounded.load(name)
        assert rounded.info(name) == weights.info(name)
        assert np.array_equal(loaded, weights.load(name)) == (name not in found)
        if loaded.ndim == 2:
            assert np.array_equal(rounded.load_rows(name, 1, 9), loaded[1:9])


@pytest.mark.parametrize("group_size", [None, 32])
def test_an_embedding_that_is_the_output_layer_too_is_looked_up_as_it_was(
    decoder: Decoder, group_size: int | None
) -> None:
    config, weights, model, _ = decoder
    assert config.tied_embeddings
    found, _ = _rounded(decoder, product_groups(model)[-1:], group_size)
    assert list(found) == [names.LM_HEAD]
    rounded = RoundedWeights(weights, found)
    embedding = weights.load(names.EMBEDDING)
    assert np.array_equal(rounded.load(names.EMBEDDING), embedding)
    assert names.LM_HEAD in rounded
    assert list(rounded.names()) == [*weights.names(), names.LM_HEAD]
    assert rounded.info(names.LM_HEAD) == WeightInfo(names.LM_HEAD, embedding.shape, "F32", embedding.nbytes)
    error = np.abs(rounded.load(names.LM_HEAD) - embedding).max()
    assert 0 < error < (0.05 if group_size is None else 0.5) * np.abs(embedding).max()
    assert np.array_equal(rounded.load_rows(names.LM_HEAD, 3, 5), rounded.load(names.LM_HEAD)[3:5])


def test_groups_that_do_not_divide_the_width_are_left_to_the_toolkit(decoder: Decoder) -> None:
    """down_proj has 40 columns here, all other products 64."""
    found, told = _rounded(decoder, group_size=32)
    assert not any("down_proj" in name for name in found)
    assert len(found) == 2 * 6 + 1
    assert told[-1] == (7, 7)
    assert all(isinstance(one, GroupWeight) and one.scale.shape[1] == 2 for one in found.values())


def test_no_groups(decoder: Decoder, tmp_path: Path) -> None:
    assert _rounded(decoder, []) == ({}, [])
