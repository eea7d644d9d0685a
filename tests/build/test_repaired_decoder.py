from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from chipwise.build.float16_plan import Aim, Float16Plan, emulated_drift, plan_float16
from chipwise.build.graph_files import GraphFiles
from chipwise.build.logits_proof import read_logits
from chipwise.build.portable_graphs import PortableGraphs
from chipwise.build.repaired_decoder import RepairedDecoder, repair_decoder, round_decoder
from chipwise.build.rknn_source import write_source
from chipwise.errors import RewriteError
from chipwise.model.config import DecoderConfig
from chipwise.model.decoder import names
from chipwise.model.model import Model
from chipwise.quant.float16_choice import Drifted
from chipwise.quant.product_groups import product_groups
from chipwise.quant.rotation import RotatedWeights
from chipwise.target import load_target
from tests.build.test_portable_graphs import PROMPTS, SHAPE, _graphs
from tests.quant.changed_weights import Planted, scaled


def _silent(done: int, total: int) -> None:
    pass


@pytest.fixture(scope="module")
def plain(even: Model, tmp_path_factory: pytest.TempPathFactory) -> PortableGraphs:
    """A decoder with a channel of the residual stream, and one of a feed-forward part, that stand out."""
    config = even.config
    assert isinstance(config, DecoderConfig)
    assert even.weights is not None
    weights = Planted(even.weights, {
        "embed_tokens.weight": scaled(7, 25, 1), "input_layernorm.weight": scaled(7, 0.1),
        "post_attention_layernorm.weight": scaled(7, 0.1), "model.norm.weight": scaled(7, 0.1),
        "0.mlp.up_proj.weight": scaled(5, 30),
    })  # fmt: skip
    return PortableGraphs(
        config, weights, SHAPE, tmp_path_factory.mktemp("plain"),
        target=load_target("rk3588"), prompts=PROMPTS, threads=1,
    )  # fmt: skip


@pytest.fixture(scope="module")
def reference(plain: PortableGraphs) -> GraphFiles:
    return plain.reference()


@pytest.fixture(scope="module")
def repaired(plain: PortableGraphs, reference: GraphFiles, tmp_path_factory: pytest.TempPathFactory) -> RepairedDecoder:
    return repair_decoder(plain, reference, PROMPTS, tmp_path_factory.mktemp("work") / "repaired", 1)


@pytest.fixture(scope="module")
def plan(repaired: RepairedDecoder) -> Float16Plan:
    return plan_float16(repaired.graphs, PROMPTS, Aim(1e9, 0.0), 1, _silent)


def test_it_is_the_same_model_and_8_bits_harm_it_less(
    plain: PortableGraphs, reference: GraphFiles, repaired: RepairedDecoder
) -> None:
    before, after = (read_logits(files, PROMPTS[3], 1) for files in (reference, repaired.reference))
    assert np.abs(before - after).max() < 1e-3 * np.abs(before).max()
    (step,) = repaired.steps
    assert (step.name, step.modified) == ("repair_decoder", 2)
    assert "2 feed-forward parts equalized" in step.note
    assert "rotated" in step.note
    assert 0 < (step.max_abs_difference or 0) < 1e-2
    drifts = [emulated_drift(graphs, PROMPTS, 1, _silent) for graphs in (plain, repaired.graphs)]
    assert drifts[1].kl_nats < 0.6 * drifts[0].kl_nats


@pytest.mark.slow
def test_what_cannot_be_rotated_is_equalized(gemma: Model, tmp_path: Path) -> None:
    graphs = _graphs(gemma, tmp_path / "plain")
    (tmp_path / "plain").mkdir()
    reference = graphs.reference()
    repaired = repair_decoder(graphs, reference, PROMPTS, tmp_path / "repaired", 1)
    assert repaired.steps[0].modified == 1
    assert "rotated" not in repaired.steps[0].note


def test_a_repair_that_changes_the_model_is_caught(
    plain: PortableGraphs, reference: GraphFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RotatedWeights, "_head", np.eye(plain.config.head_dim) * 1.01)
    with pytest.raises(RewriteError, match="repair_decoder: the logits differ"):
        repair_decoder(plain, reference, PROMPTS, tmp_path / "wrong", 1)


def test_each_group_is_measured_and_none_is_kept_for_an_open_aim(plan: Float16Plan, repaired: RepairedDecoder) -> None:
    assert [one.group for one in plan.damages] == product_groups(repaired.graphs.dynamic())
    assert all(one.kl_nats > 0 for one in plan.damages)
    assert (plan.kept, plan.more_bytes) == ((), 0)
    assert plan.left.kl_nats > max(one.kl_nats for one in plan.damages) / 2
    assert plan.line().startswith("0 of 9 groups of products, 0 bytes more")


def test_a_closer_aim_keeps_more(plan: Float16Plan, repaired: RepairedDecoder) -> None:
    half = plan_float16(repaired.graphs, PROMPTS, Aim(plan.left.kl_nats / 2, 0.0), 1, _silent)
    assert 0 < len(half.kept) < len(half.damages)
    assert half.left.kl_nats < plan.left.kl_nats / 2
    assert half.more_bytes == sum(one.group.weight_count for one in half.kept)
    assert len(half.eight_bits) + len(half.kept) == len(half.damages)
    everything = plan_float16(repaired.graphs, PROMPTS, Aim(0.0, 1.0), 1, _silent)
    assert len(everything.kept) == len(everything.damages)


@pytest.mark.parametrize(
    ("kl_nats", "agreement", "met"),
    [(0.0, 1.0, True), (0.006, 0.99, True), (0.008, 1.0, False), (0.0, 0.98, False), (0.03, 0.9, False)],
)
def test_an_aim_is_met_with_room_for_what_is_not_measured(kl_nats: float, agreement: float, met: bool) -> None:
    assert Aim(0.02, 0.95).met_by(Drifted(kl_nats, agreement)) == met


def test_rounded_weights_are_near_and_the_proofs_stay(
    repaired: RepairedDecoder, plan: Float16Plan, tmp_path: Path
) -> None:
    told: list[int] = []
    groups = plan.eight_bits[1:]
    rounded = round_decoder(repaired, groups, PROMPTS, tmp_path / "rounded", 1, lambda done, of: told.append(done))
    assert told == list(range(1, len(groups) + 1))
    assert rounded.steps == repaired.steps
    before, after = (read_logits(files, PROMPTS[3], 1) for files in (repaired.reference, rounded.reference))
    assert 0 < np.abs(before - after).max() < 0.1 * np.abs(before).max()
    left = plan.eight_bits[0].weights[0]
    assert np.array_equal(rounded.graphs.weights.load(left), repaired.graphs.weights.load(left))


def test_a_tied_output_layer_is_rounded_by_itself(plain: PortableGraphs, reference: GraphFiles, tmp_path: Path) -> None:
    """In 4 bits what is looked up stays as it is."""
    assert plain.config.tied_embeddings
    whole = RepairedDecoder(plain, reference)
    groups = product_groups(plain.dynamic())
    rounded = round_decoder(whole, groups, PROMPTS, tmp_path / "rounded", 1, _silent, group_size=32).graphs
    assert not rounded.config.tied_embeddings
    assert np.array_equal(rounded.weights.load(names.EMBEDDING), plain.weights.load(names.EMBEDDING))
    assert not np.allclose(rounded.weights.load(names.LM_HEAD), plain.weights.load(names.EMBEDDING), atol=1e-3)


def test_the_source_for_the_toolkit_is_proven_and_names_its_weights(repaired: RepairedDecoder, tmp_path: Path) -> None:
    source = write_source(repaired, load_target("rk3588"), "w8a8.source", tmp_path, prompt=PROMPTS[4], threads=1)
    assert [step.name for step in source.steps] == ["repair_decoder", "prepare_for_rknn"]
    assert sorted(source.files.files) == ["decode", "prefill"]
    wanted = ["model.layers.0.self_attn.q_proj.weight", "lm_head.weight"]
    found = source.product_weights(wanted)
    assert found == sorted(wanted)
    assert source.product_weights([]) == []
    assert source.product_weights(["model.layers.0.input_layernorm.weight"]) == []


def test_a_weight_in_pieces_is_named_by_all_of_them(repaired: RepairedDecoder, tmp_path: Path) -> None:
    target = load_target("rk3588")
    widest = target.constraints.out_columns_max
    assert widest is not None
    half = replace(widest, value=repaired.graphs.config.vocab_size // 2)
    chip = replace(target.chip, constraints=replace(target.constraints, out_columns_max=half))
    narrow = replace(target, chip=chip)
    source = write_source(repaired, narrow, "w8a8.source", tmp_path, prompt=PROMPTS[4], threads=1)
    found = source.product_weights(["lm_head.weight"])
    prefill = {str(name) for name in ir.load(source.files.files["prefill"]).graph.initializers}
    assert len(prefill.intersection(found)) == 3  # an odd vocabulary in halves
    assert "lm_head.weight" in found
