"""Blame: from what each layer does to the faults that a person is told, the most damaging first."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from chipwise.report.attribution import RUNTIME, TEMPLATE, Attribution, Fault, LayerDamage
from chipwise.verify.attribution.layer import KV_CACHE

# A divergence below this is the rounding of float32 sums.
_ROUNDING_NATS = 1e-6
# A piece of a layer is named in its place if it does this share of its damage.
_PIECE = 0.8
# A layer is named beside the first if it does this share of the first one's damage; caches are alike at this share.
_BESIDE = 0.25
# A session that drifts this many times more than its graphs do does something of its own.
_BEYOND_GRAPHS = 5.0


def blame(layers: Sequence[LayerDamage], kl_nats: float) -> tuple[Fault, ...]:
    """What is to blame for a divergence, the most first; nothing if it is rounding.

    1. The cache of all layers together, if it does most of the damage and half of the layers' caches or more are spoilt
       to a like degree.
    2. Else layers in the order of their damage, down to a quarter of the first; in the place of an attention whose
       cache does most of its damage, that cache.

    Args:
        layers: Every layer and piece of one.
        kl_nats: The candidate's divergence.
    """
    if not kl_nats > _ROUNDING_NATS:
        return ()
    by_name = {layer.layer: layer for layer in layers}
    whole = sorted((layer for layer in layers if not layer.inside), key=_most_first)
    pieces: Mapping[str, LayerDamage] = {one.inside: one for one in layers if one.inside and one.layer != KV_CACHE}
    found = [_named(layer, pieces, kl_nats) for layer in whole if _counts(layer, whole[0])]
    caches = by_name.get(KV_CACHE)
    if caches is not None and caches.damage_nats >= _PIECE * kl_nats and _widespread(list(pieces.values())):
        why = (
            f"the keys and values of all layers together bring {caches.kl_in_nats:.3g} of {kl_nats:.3g} nats alone, "
            f"and {caches.kl_out_nats:.3g} are left without them"
        )
        found.insert(0, Fault(KV_CACHE, why))
    return tuple(found)


def with_prompts(found: Attribution | None, differing: int, cases: int, example: str) -> Attribution:
    """An attribution that blames the chat template first, if both sides write prompts of their own.

    Args:
        found: What the graphs say; None if they were not run.
        differing: Cases whose prompt is not the same.
        cases: All cases.
        example: The first difference, in words.
    """
    found = found or Attribution()
    if not differing:
        return found
    why = f"{differing} of {cases} cases are put to the two in different tokens: {example}"
    return _with_first(found, Fault(TEMPLATE, why))


def with_runtime(found: Attribution, session_nats: float, self_check_nats: float, limit_nats: float) -> Attribution:
    """An attribution that blames the runtime first, if sessions drift and the graphs they run do not.

    Args:
        found: What the graphs say.
        session_nats: The candidate's divergence as its session answers.
        self_check_nats: The candidate's session against itself, read at once and token by token.
        limit_nats: What the self-check may be at most.
    """
    if not (self_check_nats > limit_nats and session_nats > _BEYOND_GRAPHS * found.kl_nats + limit_nats):
        return found
    why = (
        f"answers drift by {session_nats:.3g} nats and the same graphs run here by {found.kl_nats:.3g}; the session "
        f"differs from itself by {self_check_nats:.3g} nats between reading at once and token by token: look at how it "
        "counts positions and keeps its cache"
    )
    return _with_first(found, Fault(RUNTIME, why))


def _with_first(found: Attribution, fault: Fault) -> Attribution:
    return replace(found, faults=(fault, *found.faults))


def _named(layer: LayerDamage, pieces: Mapping[str, LayerDamage], kl_nats: float) -> Fault:
    piece = pieces.get(layer.layer)
    if piece is not None and piece.damage_nats >= _PIECE * layer.damage_nats:
        layer = piece
    why = (
        f"alone it brings {layer.kl_in_nats:.3g} nats, without it {layer.kl_out_nats:.3g} of {kl_nats:.3g} are left; "
        f"its own error is {layer.own_error:.2g}, inherited {layer.inherited_error:.2g}"
    )
    return Fault(layer.layer, why)


def _widespread(caches: Sequence[LayerDamage]) -> bool:
    """Whether several caches have an error of their own, and half of all or more one like the largest."""
    errors = [cache.own_error for cache in caches]
    alike = sum(error >= _BESIDE * max(errors) > 0 for error in errors)
    return alike > 1 and 2 * alike >= len(errors)


def _counts(layer: LayerDamage, first: LayerDamage) -> bool:
    return layer is first or (layer.damage_nats > 0 and layer.damage_nats >= _BESIDE * first.damage_nats)


def _most_first(layer: LayerDamage) -> tuple[float, float]:
    damage = -math.inf if math.isnan(layer.damage_nats) else layer.damage_nats
    return -damage, -layer.own_error
