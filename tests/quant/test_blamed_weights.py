from __future__ import annotations

import pytest

from chipwise.model.decoder import GraphSpec
from chipwise.model.model import Model
from chipwise.quant.blamed_weights import blamed_weights, group_damages, layer_of
from chipwise.quant.product_groups import product_groups
from chipwise.report.attribution import Attribution, LayerDamage
from tests.quant.small_graphs import decoder


def damaged() -> Attribution:
    layers = {"layers.0.attention": 0.4, "layers.1.feed_forward": 0.8, "output": 0.1, "layers.0.feed_forward": 0.0}
    return Attribution(layers=tuple(LayerDamage(name, 0, 0, d, 0, d) for name, d in layers.items()))


@pytest.mark.parametrize(
    ("weight", "layer"),
    [
        ("model.layers.3.self_attn.qkv_proj.weight", "layers.3.attention"),
        ("model.layers.3.input_layernorm.weight", "layers.3.attention"),
        ("model.layers.12.mlp.gate_up_proj.weight", "layers.12.feed_forward"),
        ("model.layers.12.post_attention_layernorm.weight", "layers.12.feed_forward"),
        ("model.embed_tokens.weight", "embedding"),
        ("lm_head.weight", "output"),
        ("model.norm.weight", "output"),
        ("rope_cos", None),
    ],
)
def test_every_weight_has_its_layer(weight: str, layer: str | None) -> None:
    assert layer_of(weight) == layer


def test_weights_come_in_the_order_of_their_layers_damage(llama: Model) -> None:
    weights = decoder(llama, GraphSpec("prefill", 32)).graph.initializers
    order = blamed_weights(damaged(), weights)
    assert [one.layer for one in order[:4]] == ["layers.1.feed_forward"] * 4
    assert order[4].layer == "layers.0.attention"
    assert [one.damage_nats for one in order] == sorted((one.damage_nats for one in order), reverse=True)
    assert "rope_cos" not in {one.weight for one in order}


def test_groups_share_their_layers_damage_for_the_search(llama: Model) -> None:
    groups = product_groups(decoder(llama, GraphSpec("prefill", 32)))
    damages = group_damages(damaged(), groups)
    assert [one.group for one in damages] == groups
    assert sum(one.kl_nats for one in damages) == pytest.approx(0.4 + 0.8 + 0.1)
    by_output = {output: one.kl_nats for one in damages for output in one.group.outputs}
    assert by_output["logits"] == pytest.approx(0.1)
    # A layer's larger group has more of it.
    worst = max(damages, key=lambda one: one.kl_nats)
    assert any("layers.1.mlp" in weight for weight in worst.group.weights)
