from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chipwise.build.attempt import Attempt, Tried
from chipwise.build.graph_file import GraphFile
from chipwise.build.graph_trial import GraphTrial
from chipwise.build.repair import Bench, climb
from chipwise.build.repair_changes import Ladder, _largest, losing_values
from chipwise.quant.recipe import parse_recipe
from chipwise.report import Verdict
from chipwise.report.report import LayerCosine
from chipwise.rewrite.pass_ import RewriteContext

GRAPH = GraphFile(Path("graph.onnx"), None)
GATE = 0.98


def attempt(recipe: str = "w8a8") -> Attempt:
    return Attempt(parse_recipe(recipe), GRAPH)


def tried(one: Attempt, cosine: float) -> Tried:
    output = LayerCosine("y", cosine, cosine, cosine, 0)
    verdict = Verdict.judge("channel_cosine", cosine, GATE, "min")
    return Tried(one, GraphTrial(one.recipe, GRAPH, (output,), (), 1, (verdict,)))


def rung(*changes: tuple[str, dict[str, Any]]) -> Any:
    def change(bench: Bench) -> Iterator[Attempt]:
        for words, fields in changes:
            yield bench.best.attempt.changed(words, **fields)

    return change


def walk(cosines: dict[str, float], *rungs: Any, limit: int = 8) -> tuple[Bench, list[str]]:
    bench = Bench(tried(attempt(), 0.5))
    climb(bench, rungs, lambda one: tried(one, cosines[one.change]), limit=limit)
    return bench, [one.attempt.change for one in bench.tried]


def test_it_stops_at_the_first_rung_that_holds() -> None:
    bench, steps = walk({"a": 0.9, "b": 0.99}, rung(("a", {})), rung(("b", {})), rung(("c", {})))
    assert steps == ["plain", "a", "b"]
    assert bench.passed
    assert bench.best.attempt.changes == ("a", "b")
    assert [bench.kept(one) for one in bench.tried] == [False, True, True]


def test_what_did_not_help_is_not_kept() -> None:
    bench, _ = walk({"a": 0.4, "b": 0.99}, rung(("a", {})), rung(("b", {})))
    assert bench.best.attempt.changes == ("b",)
    assert [bench.kept(one) for one in bench.tried] == [False, False, True]


def test_builds_are_limited_and_the_best_stays() -> None:
    names = [f"{i}" for i in range(20)]
    cosines = {name: 0.6 + i / 1000 for i, name in enumerate(names)}
    bench, steps = walk(cosines, *(rung((name, {})) for name in names), limit=5)
    assert len(steps) == 5
    assert not bench.passed
    assert bench.best.attempt.change == "3"


def test_fewer_values_in_float16_are_better_once_the_gate_holds() -> None:
    wide = ("16 bits", {"float16": ("a", "b", "c")})
    fewer = ("less", {"float16": ("a",)})
    bench, _ = walk({"16 bits": 0.999, "less": 0.985}, rung(wide, fewer))
    assert bench.best.attempt.float16 == ("a",)
    bench, _ = walk({"16 bits": 0.999, "less": 0.97}, rung(wide, fewer))
    assert bench.best.attempt.float16 == ("a", "b", "c")


def test_a_build_that_fails_is_noted_and_passed_over() -> None:
    def run(one: Attempt) -> Tried:
        return Tried(one, None, "the toolkit failed") if one.change == "a" else tried(one, 0.99)

    bench = Bench(tried(attempt(), 0.5))
    climb(bench, [rung(("a", {})), rung(("b", {}))], run)
    assert (bench.passed, bench.tried[1].note, bench.kept(bench.tried[1])) == (True, "the toolkit failed", False)


def test_nan_outputs_rank_below_all() -> None:
    bench, _ = walk({"a": float("nan")}, rung(("a", {})))
    assert bench.best.attempt.change == "plain"
    assert [bench.kept(one) for one in bench.tried] == [True, False]


@pytest.mark.parametrize(
    ("recipe", "expected"),
    [
        ("w8a8", ["algorithm mmse", "algorithm kl_divergence"]),
        ("w4a16", ["algorithm gdq"]),
        ("w4a16_channel", ["algorithm gdq"]),
    ],
)
def test_algorithms_by_scheme(recipe: str, expected: list[str]) -> None:
    bench = Bench(tried(attempt(recipe), 0.5))
    made = list(_ladder().algorithms(bench))
    assert [one.change for one in made] == expected
    assert [one.algorithm for one in made] == [name.split()[1] for name in expected]


def test_an_algorithm_takes_the_place_of_clipped_ranges() -> None:
    clipped = attempt().changed("even").changed("ranges of 3 values clipped", ranges={"a": (0.0, 1.0)})
    bench = Bench(tried(clipped, 0.5))
    first = next(_ladder().algorithms(bench))
    assert (first.changes, first.ranges) == (("even", "algorithm mmse"), {})


def test_groups_become_finer_but_not_where_the_user_chose() -> None:
    bench = Bench(tried(Attempt(parse_recipe("w4a16_channel"), GRAPH), 0.5))
    assert list(_ladder().groups(bench)) == []
    assert list(_ladder().groups(Bench(tried(attempt(), 0.5)))) == []


def test_the_fewest_values_that_make_up_a_share() -> None:
    losses = {"a": 0.5, "b": 0.3, "c": 0.2}
    shares = (0.5, 0.75, 1.0)
    assert [_largest(losses, share) for share in shares] == [("a",), ("a", "b"), ("a", "b", "c")]
    assert _largest({"a": float("inf"), "b": 1.0}, 0.5) == ("a",)
    assert _largest({}, 0.5) == ()


def test_operators_without_weights_cost_less_than_a_value_and_more_than_nothing() -> None:
    whole = ("all", {"weightless_float16": True})
    bench, _ = walk({"all": 0.9, "16 bits": 0.99}, rung(whole), rung(("16 bits", {"float16": ("a",)})))
    assert (bench.best.attempt.weightless_float16, bench.best.attempt.float16) == (True, ("a",))
    ranks = [
        tried(attempt().changed("x", **fields), 0.99).rank
        for fields in ({}, {"weightless_float16": True}, {"float16": ("a",), "weightless_float16": True})
    ]
    assert ranks == sorted(ranks, reverse=True)
    assert len(set(ranks)) == 3


def test_operators_without_weights_are_offered_once_and_only_to_integers() -> None:
    first = next(_ladder().weightless(Bench(tried(attempt(), 0.5))))
    assert first.weightless_float16
    assert list(_ladder().weightless(Bench(tried(first, 0.5)))) == []
    assert list(_ladder().weightless(Bench(tried(attempt("w4a16"), 0.5)))) == []


def test_without_a_table_there_is_nothing_to_keep_in_float16() -> None:
    bench = Bench(tried(attempt(), 0.5))
    assert losing_values(bench.best) == {}
    assert list(itertools.islice(_ladder().float16(bench), 3)) == []


def _ladder() -> Ladder:
    return Ladder([], RewriteContext(), Path(), [], clips=True, compiled=True)
