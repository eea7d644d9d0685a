from __future__ import annotations

import numpy as np
import pytest

from chipwise.errors import InputError
from chipwise.model.decoder import GraphSpec
from chipwise.model.model import Model
from chipwise.quant.chip_weights import per_channel_ops, quantize_for_chip
from chipwise.quant.recipe import parse_recipe
from chipwise.rewrite.decoder_feeds import prompt_feed
from chipwise.target import load_target
from tests.quant.small_graphs import cosine, decoder, linear, run

PROMPT = [5, 9, 4, 7, 33, 12]


@pytest.mark.parametrize(
    ("recipe", "least", "head"),
    [
        ("fp16", 0.99999, (16, None, None)),
        ("w8a8", 0.999, (8, None, 0)),
        ("w8a8_tensor", 0.999, (8, None, None)),
        ("w8a16_channel", 0.999, (8, None, 0)),
        ("w8a16_g32", 0.999, (8, 32, 0)),
        ("w4a16_channel", 0.9, (4, None, 0)),
        ("w4a16_g32", 0.95, (4, 32, 0)),
    ],
)
def test_each_recipe_stores_every_product_so(
    recipe: str, least: float, head: tuple[int, int | None, int | None], even: Model
) -> None:
    model = decoder(even, GraphSpec("prefill", 32))
    feed = prompt_feed(model.graph, PROMPT)
    wanted = run(model, feed)["logits"]
    products = [node.name for node in model.graph if node.op_type in ("MatMul", "Gemm") and _has_weight(node)]
    schemes = quantize_for_chip(model, parse_recipe(recipe))
    assert cosine(run(model, feed)["logits"], wanted) > least
    found = schemes.get("lm_head.weight") or schemes["model.embed_tokens.weight"]
    assert (found.bits, found.group_size, found.axis) == head
    stored = {scheme.bits for name, scheme in schemes.items() if name.endswith("_proj.weight")}
    assert stored == {head[0]}
    assert len([name for name in schemes if name.endswith("_proj.weight")]) == len(products) - 1
    # The look-up is the CPU's, in float16, whatever the chip's products are.
    assert schemes["model.embed_tokens.weight.table"].dtype == "float16"


def _has_weight(node: object) -> bool:
    return node.inputs[1].is_initializer()  # type: ignore[attr-defined]


def test_four_bits_a_channel_reach_the_whole_channel() -> None:
    weight = np.random.default_rng(0).normal(size=(640, 8)).astype(np.float32)
    model = linear(weight)
    schemes = quantize_for_chip(model, parse_recipe("w4a16_channel"))
    assert schemes["w"].dtype == "int4"
    assert model.graph.initializers["w.scales"].const_value.size == 8
    dense = run(model, {"x": np.eye(640, dtype=np.float32)})["y"]
    assert all(len(np.unique(np.round(dense[:, i] / np.abs(dense[:, i]).max() * 7))) <= 15 for i in range(8))


def test_a_group_the_user_named_must_divide() -> None:
    with pytest.raises(InputError, match="48 input channels are no multiple of the group of 32"):
        quantize_for_chip(linear(np.ones((48, 4))), parse_recipe("w4a16_g32"))


def test_operators_with_a_scale_a_channel() -> None:
    assert "MatMul" in (per_channel_ops(load_target("rk3588")) or ())
    assert "MatMul" not in (per_channel_ops(load_target("ethos-u55")) or ())
    assert per_channel_ops(load_target("edge-tpu")) is None
    schemes = quantize_for_chip(
        linear(np.random.default_rng(0).normal(size=(8, 4))),
        parse_recipe("w8a8"),
        per_channel_ops=per_channel_ops(load_target("ethos-u55")),
    )
    assert schemes["w"].axis is None


def test_groups_are_scaled_by_their_largest_magnitude_as_the_toolkit_does() -> None:
    """rknn-toolkit2 2.5.0, w4a16, group32, normal: steps of a 7th of the largest magnitude, none beyond it."""
    weight = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
    weight[:32] += 1
    model = linear(weight)
    quantize_for_chip(model, parse_recipe("w4a16_g32"))
    dense = run(model, {"x": np.eye(64, dtype=np.float32)})["y"]
    for group in (slice(0, 32), slice(32, 64)):
        step = np.abs(weight[group]).max(axis=0) / 7
        assert np.allclose(dense[group], np.rint(weight[group] / step) * step, atol=1e-5)
