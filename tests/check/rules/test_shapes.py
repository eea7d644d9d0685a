from __future__ import annotations

from chipwise.check.rules.shapes import dim_limits, softmax_area, static_shapes, zero_sizes
from tests.check.graphs import fact, given_graph, graph, q, target

DYNAMIC = "g (float[B,S] x, float[B,past + S] z) => (float[B,S] y) { y = Relu(x) }"


def test_every_symbol_is_named_with_its_places() -> None:
    found = list(static_shapes(given_graph(graph(DYNAMIC.replace("past + S", "S")), target(static_shapes=fact(True)))))
    assert [(f.severity, f.where, f.measured) for f in found] == [
        ("error", "x[0], z[0]", "symbolic dimension B"),
        ("error", "x[1], z[1]", "symbolic dimension S"),
    ]


def test_a_nameless_dimension_is_named_by_its_place() -> None:
    (one,) = static_shapes(
        given_graph(graph("g (float[?,4] x) => (float[?,4] y) { y = Relu(x) }"), target(static_shapes=fact(True)))
    )
    assert one.measured == "symbolic dimension x:0"


def test_sizes_that_the_user_gave_settle_it() -> None:
    on = target(static_shapes=fact(True))
    assert list(static_shapes(given_graph(graph(DYNAMIC.replace("past + S", "S")), on, dims={"B": 1, "S": 8}))) == []


def test_a_target_that_takes_any_shape() -> None:
    assert (
        list(static_shapes(given_graph(graph(DYNAMIC.replace("past + S", "S")), target(static_shapes=fact(False)))))
        == []
    )
    assert list(static_shapes(given_graph(graph(DYNAMIC.replace("past + S", "S")), target()))) == []


def test_dimension_limits_name_the_worst() -> None:
    body = (
        "g (float[3,70,2] x) => (float[3,90,2] y) {"
        " a = Relu(x) p = Constant<value_ints=[0,0,0,0,20,0]>() y = Pad(a, p) }"
    )
    on = target(rank=q(4), batch_max=q(2), dim_max=q(64), dim_min=q(3))
    found = {one.measured.split(" of ")[0]: one.limit for one in dim_limits(given_graph(graph(body), on))}
    assert found == {
        "rank 3": "rank 4",
        "first dimension 3": "at most 2",
        "dimension 90": "at most 64",
        "dimension 2": "at least 3",
    }
    wide = target(rank=q(3), batch_max=q(3), dim_max=q(90), dim_min=q(2))
    assert list(dim_limits(given_graph(graph(body), wide))) == []


def test_softmax_area() -> None:
    on = target(softmax_area_max=q(64))
    body = "g (float[1,8,{}] x) => (float[1,8,{}] y) {{ y = Softmax(x) }}"
    (one,) = softmax_area(given_graph(graph(body.format(8, 8)), on))
    assert one.measured == "8 x 8"
    assert list(softmax_area(given_graph(graph(body.format(7, 7)), on))) == []


def test_an_input_without_values() -> None:
    body = "g (float[1,4] x, float[1,0] past) => (float[1,4] y) { y = Concat<axis=1>(x, past) }"
    (one,) = zero_sizes(given_graph(graph(body), target()))
    assert (one.severity, one.where, one.measured) == ("error", "past", "[1, 0]")
    assert list(zero_sizes(given_graph(graph(body.replace("1,0", "1,2")), target()))) == []
    assert list(zero_sizes(given_graph(graph(body), target(kind="cpu")))) == []
