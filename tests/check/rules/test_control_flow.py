from __future__ import annotations

import pytest

from chipwise.check.rules.control_flow import control_flow
from tests.check.graphs import fact, given_graph, graph, target

STRICT = target(control_flow=fact(False))
BRANCHES = "<then_branch=t () => (float[2] a) {a = Relu(x)}, else_branch=e () => (float[2] b) {b = Neg(x)}>"


@pytest.mark.parametrize(
    ("body", "where"),
    [
        (f"g (float[2] x, bool c) => (float[2] y) {{ y = If(c) {BRANCHES} }}", "If y"),
        ("g (float[4] x) => (int64[1,N] y) { y = NonZero(x) }", "NonZero y"),
        (
            "g (int64 n) => (int64[N] y) {"
            " z = Constant<value_int=0>() o = Constant<value_int=1>() y = Range(z, n, o) }",
            "Range y",
        ),
        ("g (float[4] x, int64[2] n) => (float[M,N] y) { y = Reshape(x, n) }", "Reshape y"),
    ],
)
def test_what_depends_on_data_is_named(body: str, where: str) -> None:
    (one,) = control_flow(given_graph(graph(body), STRICT))
    assert (one.severity, one.where) == ("error", where)


def test_a_settled_if_is_a_remark() -> None:
    body = f"g (float[2] x) => (float[2] y) {{ c = Constant<value=bool {{1}}>() y = If(c) {BRANCHES} }}"
    (one,) = control_flow(given_graph(graph(body), STRICT))
    assert one.severity == "info"


def test_a_range_over_shapes_folds() -> None:
    body = (
        "g (float[B,S] x) => (float[B,S] y) { s = Shape(x) i = Constant<value_int=1>() n = Gather(s, i)"
        " z = Constant<value_int=0>() o = Constant<value_int=1>() r = Range(z, n, o) f = Cast<to=1>(r) y = Add(x, f) }"
    )
    assert list(control_flow(given_graph(graph(body), STRICT))) == []


def test_a_target_that_branches() -> None:
    body = "g (float[4] x) => (int64[1,N] y) { y = NonZero(x) }"
    assert list(control_flow(given_graph(graph(body), target(control_flow=fact(True))))) == []
    assert list(control_flow(given_graph(graph(body), target()))) == []
