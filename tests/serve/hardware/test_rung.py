from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from chipwise.bundle import open_bundle
from chipwise.bundle.variants import add_variant
from chipwise.serve.hardware.rung import Variant, ladder, variants_of
from chipwise.serve.request.priority import Priority
from tests.serve.forms import write_form

SMALL = Variant("w4a16", "KL 0.025 nats, 92.5 % of next tokens")


def test_what_costs_least_comes_first() -> None:
    rungs = ladder(5, (1.0, 0.6, 0.8), (SMALL,))
    assert [rung.name for rung in rungs] == [
        *("as asked", "at most 2 at once", "clock at 80%", "clock at 60%", "variant w4a16"),
        *("no background work", "no background and normal work", "emergencies only"),
    ]
    last = rungs[-1]
    assert (last.limits.max_batch, last.clock_ratio, last.variant) == (2, 0.6, SMALL)
    assert [rung.costs_requests for rung in rungs] == [False] * 5 + [True] * 3


def test_a_ladder_without_clocks_and_variants() -> None:
    assert [rung.name for rung in ladder(1)][:2] == ["as asked", "no background work"]
    batches = {n: [rung.limits.max_batch for rung in ladder(n)[:-3]] for n in (1, 2, 3, 4, 9)}
    assert batches == {1: [None], 2: [None, 1], 3: [None, 2], 4: [None, 2], 9: [None, 4, 2]}


@given(st.integers(1, 64), st.lists(st.floats(-1, 2)), st.integers(0, 3))
def test_each_rung_includes_those_below_and_none_sheds_an_emergency(batch: int, ratios: list[float], n: int) -> None:
    rungs = ladder(batch, ratios, [SMALL] * n)
    for below, above in pairwise(rungs):
        assert below.limits.shed <= above.limits.shed
        assert (above.limits.max_batch or batch) <= (below.limits.max_batch or batch)
        assert (above.clock_ratio or 1) <= (below.clock_ratio or 1)
    assert not any(rung.limits.sheds(Priority.EMERGENCY) for rung in rungs)
    assert all(rung.limits.max_batch is None or rung.limits.max_batch >= 1 for rung in rungs)


def test_variants_of_a_bundle_come_in_the_order_of_what_they_lose(tmp_path: Path) -> None:
    path = write_form(tmp_path / "bundle")
    for salt, (name, kl_nats) in enumerate((("b", 0.06), ("c", 0.03), ("a", 0.09)), 1):
        add_variant(path, write_form(tmp_path / name, salt, kl_nats=kl_nats), name)
    found = variants_of(open_bundle(path))
    assert [variant.name for variant in found] == ["c", "b", "a"]
    assert found[0].quality_cost == "KL 0.03 nats, 95.0% of next tokens, gate pass"
    assert variants_of(open_bundle(tmp_path / "a")) == ()
