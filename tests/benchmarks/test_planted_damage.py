"""A few of the benchmark's plantings, on a few cases."""

from __future__ import annotations

import pytest

from benchmarks.planted_damage import Bench, attributed, judged
from benchmarks.plantings import plantings, template_of

pytestmark = pytest.mark.slow

CASES = 64


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench.lay_out(tmp_path_factory.mktemp("bench"))


@pytest.mark.parametrize(
    "words",
    [
        "scores of layer 1 in int8 with a mask of -1e9",
        "keys and values of all layers at 4 bits",
        "rotary angles a quarter too large",
        "a chat template of another family",
    ],
)
def test_the_culprit_is_named_and_what_costs_is_stopped(words: str, bench: Bench) -> None:
    planting = next(one for one in plantings(bench.ground.config.n_layers) if one.words == words)
    candidate = bench.plant(planting, words.replace(" ", "_"))
    found = judged(bench, candidate, template_of(planting, bench.template), CASES, seed=7)
    assert attributed(bench, candidate, found).culprit == planting.culprit
    costs = any(row.drop >= 0.03 for row in found.quality.matrix if row.label == "all")
    # What 4 bits in the cache take from this model is less than 16 cases a dimension can show.
    assert costs == (planting.culprit != "kv_cache")
    assert (found.outcome == "fail") == costs


def test_nothing_is_named_in_the_undamaged_model(bench: Bench) -> None:
    found = judged(bench, bench.reference, bench.template, CASES, seed=7)
    assert attributed(bench, bench.reference, found).culprit == ""
    assert found.outcome == "unclear"  # 16 cases a dimension prove nothing, and nothing failed
    assert all(verdict.passed for verdict in found.verdicts)
