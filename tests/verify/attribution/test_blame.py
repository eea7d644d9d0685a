from __future__ import annotations

from dataclasses import replace

from chipwise.report.attribution import Attribution, LayerDamage
from chipwise.verify.attribution.blame import blame, with_prompts, with_runtime


def layer(name: str, damage: float, *, inside: str = "", own: float = 0.1) -> LayerDamage:
    return LayerDamage(name, own, 0.2, damage, 1 - damage, damage, inside)


def names(*layers: LayerDamage, kl_nats: float = 1.0) -> list[str]:
    return [fault.name for fault in blame(layers, kl_nats)]


ATTENTION = layer("layers.0.attention", 0.5)
FEED_FORWARD = layer("layers.1.feed_forward", 0.2)


def test_layers_come_in_the_order_of_their_damage_down_to_a_quarter_of_the_first() -> None:
    slight = layer("output", 0.1)
    assert names(slight, FEED_FORWARD, ATTENTION) == ["layers.0.attention", "layers.1.feed_forward"]


def test_rounding_is_nobodys_fault() -> None:
    assert names(ATTENTION, kl_nats=1e-8) == []


def test_a_cache_is_named_where_it_does_its_attentions_damage() -> None:
    cache = layer("layers.0.kv_cache", 0.45, inside="layers.0.attention")
    assert names(ATTENTION, cache)[0] == "layers.0.kv_cache"
    assert names(ATTENTION, replace(cache, damage_nats=0.1))[0] == "layers.0.attention"


def test_all_caches_are_named_together_if_they_are_alike() -> None:
    caches = [layer(f"layers.{i}.kv_cache", 0.4, inside=f"layers.{i}.attention") for i in (0, 1)]
    layers = [ATTENTION, layer("layers.1.attention", 0.4), *caches]
    together = layer("kv_cache", 0.9, inside="all")
    assert names(*layers, together)[:2] == ["kv_cache", "layers.0.kv_cache"]
    # One cache alone, or caches that leave damage: no.
    alone = replace(caches[1], own_error=0.0)
    assert names(*layers[:-1], alone, together)[0] == "layers.0.kv_cache"
    assert "kv_cache" not in names(*layers, replace(together, damage_nats=0.5))


def test_damage_without_end_or_measure_is_sorted() -> None:
    endless, unknown = layer("embedding", float("inf")), layer("output", float("nan"))
    assert names(unknown, ATTENTION, endless, kl_nats=float("inf"))[0] == "embedding"


def test_prompts_that_differ_go_before_layers() -> None:
    found = Attribution(faults=blame([ATTENTION], 1.0))
    assert with_prompts(found, 0, 10, "") == found
    first, second = with_prompts(found, 3, 10, "k1 is 'a' to the reference, 'b' to the candidate").faults
    assert (first.name, second.name) == ("template", "layers.0.attention")
    assert first.why.startswith("3 of 10 cases are put to the two in different tokens: k1 is 'a'")
    assert with_prompts(None, 1, 1, "").culprit == "template"


def test_a_session_that_drifts_where_its_graphs_do_not() -> None:
    found = Attribution(kl_nats=0.001)
    assert with_runtime(found, 0.5, 0.4, 0.01).culprit == "runtime"
    assert with_runtime(found, 0.5, 0.001, 0.01).culprit == ""  # it agrees with itself
    assert with_runtime(replace(found, kl_nats=0.5), 0.5, 0.4, 0.01).culprit == ""  # its graphs drift as much
