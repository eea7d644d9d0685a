"""Blamed weights: an attribution as the order in which a search over precision gives weights more bits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from chipwise.model.decoder import names
from chipwise.quant.float16_choice import GroupDamage
from chipwise.quant.product_groups import ProductGroup
from chipwise.report.attribution import Attribution


@dataclass(frozen=True)
class BlamedWeight:
    """A weight and what the layer it belongs to does.

    Attributes:
        weight: The weight's name in the graph.
        layer: The layer.
        damage_nats: The whole layer's damage, which its weights share.
    """

    weight: str
    layer: str
    damage_nats: float


def layer_of(weight: str) -> str | None:
    """The layer that attribution names for a weight; None for a weight of none.

    Weights of merged projections bear the layer's name like the others.
    """
    if weight.startswith(names.EMBEDDING.removesuffix(".weight")):
        return "embedding"
    if weight.startswith((names.LM_HEAD.removesuffix(".weight"), names.FINAL_NORM)):
        return "output"
    parts = weight.split(".")
    if parts[:2] != ["model", "layers"] or len(parts) < 4:
        return None
    in_attention = parts[3] in ("self_attn", "input_layernorm")
    return f"layers.{parts[2]}.{'attention' if in_attention else 'feed_forward'}"


def blamed_weights(attribution: Attribution, weights: Iterable[str]) -> list[BlamedWeight]:
    """Weights in the order of what their layers do, the most damaging first; weights of no layer are left out.

    Args:
        attribution: What attribution found.
        weights: Names of weights, e.g. a graph's initializers.
    """
    damages = {layer.layer: layer.damage_nats for layer in attribution.whole_layers}
    named = [(weight, layer_of(weight)) for weight in weights]
    found = [BlamedWeight(weight, layer, damages[layer]) for weight, layer in named if layer in damages]
    return sorted(found, key=lambda one: -one.damage_nats)


def group_damages(attribution: Attribution, groups: Sequence[ProductGroup]) -> list[GroupDamage]:
    """What each group of products costs by an attribution, for ``choose_float16`` in place of a measurement of its own.

    A layer's damage is shared among its groups by their numbers of weights; an output layer that is the embedding
    counts as the output.
    """
    layers = [_layer_of_group(group) for group in groups]
    damages = {layer.layer: max(0.0, layer.damage_nats) for layer in attribution.whole_layers}
    sizes = {name: sum(g.weight_count for g, of in zip(groups, layers, strict=True) if of == name) for name in layers}
    return [
        GroupDamage(group, damages.get(name or "", 0.0) * group.weight_count / max(1, sizes[name]))
        for group, name in zip(groups, layers, strict=True)
    ]


def _layer_of_group(group: ProductGroup) -> str | None:
    if names.LOGITS in group.outputs:
        return "output"
    return next((layer for weight in group.weights if (layer := layer_of(weight))), None)
