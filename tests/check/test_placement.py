from __future__ import annotations

from chipwise.check.placement import count_placement
from chipwise.target.placement import Placement
from tests.check.graphs import SOURCE, given_graph, graph, target

TABLE = (
    Placement("npu", ("Relu", "MatMul", "Gelu"), SOURCE),
    Placement("cpu", ("Erf", "TopK"), SOURCE),
    Placement("unsupported", ("Det",), SOURCE),
)
SPLIT = "g (float[4,8] x) => (float[4,8] y) { a = Relu(x) b = Erf(a) c = Relu(b) i = Identity(c) y = Relu(i) }"


def test_segments_and_crossing_bytes() -> None:
    count = count_placement(given_graph(graph(SPLIT), target(placement=TABLE)))
    assert count.by_place == {"npu": 3, "cpu": 1}
    assert count.segments == 2
    assert (count.crossings, count.crossing_bytes, count.unsized) == (2, 2 * 4 * 8 * 4, 0)


def test_all_on_one_side_crosses_nothing() -> None:
    count = count_placement(
        given_graph(graph("g (float[4] x) => (float[4] y) { a = Relu(x) y = Relu(a) }"), target(placement=TABLE))
    )
    assert (count.segments, count.crossings) == (1, 0)


def test_a_value_crosses_once_whoever_reads_it() -> None:
    body = "g (float[4] x) => (float[4] y) { a = Relu(x) b = Erf(a) c = Erf(a) d = Relu(b) y = Relu(c) }"
    assert count_placement(given_graph(graph(body), target(placement=TABLE))).crossings == 3


def test_a_size_that_depends_on_a_symbol() -> None:
    body = SPLIT.replace("[4,8]", "[n,8]")
    assert count_placement(given_graph(graph(body), target(placement=TABLE))).unsized == 2
    assert count_placement(given_graph(graph(body), target(placement=TABLE), dims={"n": 4})).crossing_bytes == 256


def test_erf_inside_a_gelu_counts_as_the_gelu() -> None:
    body = (
        "g (float[4] x) => (float[4] y) { h = Constant<value_float=0.5>() o = Constant<value_float=1.0>()"
        " r = Constant<value_float=1.41421356>() a = Div(x, r) b = Erf(a) c = Add(b, o) d = Mul(x, c) y = Mul(d, h) }"
    )
    count = count_placement(given_graph(graph(body), target(placement=TABLE)))
    assert count.by_place == {"npu": 5}
    assert not count.unknown


def test_what_folds_away_is_not_placed() -> None:
    body = "g (float[N,4] x) => (float[N,4] y) { s = Shape(x) f = Cast<to=1>(s) k = ReduceSum(f) y = Relu(x) }"
    assert count_placement(given_graph(graph(body), target(placement=TABLE))).by_place == {"npu": 1}


def test_unknown_operators_are_listed() -> None:
    count = count_placement(
        given_graph(graph("g (float[4] x) => (float[4] y) { y = Neg(x) }"), target(placement=TABLE))
    )
    assert count.unknown == {"Neg": 1}
