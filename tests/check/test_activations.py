from __future__ import annotations

import pytest

from chipwise.check.activations import Found, find_activation
from tests.check.graphs import graph

HALF, ONE = "h = Constant<value_float=0.5>()", "o = Constant<value_float=1.0>()"
ROOT, INVERSE = "r = Constant<value_float=1.41421356>()", "r = Constant<value_float=0.70710678>()"

WAYS = {
    "gelu": [
        f"{HALF} {ONE} {ROOT} a = Div(x, r) b = Erf(a) c = Add(b, o) d = Mul(x, c) y = Mul(d, h)",
        f"{HALF} {ONE} {INVERSE} a = Mul(r, x) b = Erf(a) c = Add(o, b) d = Mul(h, x) y = Mul(d, c)",
        f"{HALF} {ONE} {INVERSE} a = Mul(x, r) b = Erf(a) c = Add(b, o) d = Mul(c, h) y = Mul(x, d)",
        "y = Gelu(x)",
    ],
    "gelu_tanh": [
        f"{HALF} {ONE} t = Constant<value_float=3.0>() k = Constant<value_float=0.044715>() "
        "s = Constant<value_float=0.7978845608>() a = Pow(x, t) b = Mul(k, a) c = Add(x, b) d = Mul(s, c) e = Tanh(d) "
        "f = Add(o, e) i = Mul(x, f) y = Mul(h, i)",
        f"{HALF} {ONE} k = Constant<value_float=0.044715>() s = Constant<value_float=0.7978845608>() "
        "a = Mul(x, x) b = Mul(a, k) c = Add(b, o) d = Mul(x, s) e = Mul(d, c) f = Tanh(e) i = Add(f, o) "
        "j = Mul(x, h) y = Mul(j, i)",
        'y = Gelu<approximate="tanh">(x)',
    ],
    "silu": [
        "s = Sigmoid(x) y = Mul(x, s)",
        "s = Sigmoid(x) y = Mul(s, x)",
        f"{ONE} n = Neg(x) e = Exp(n) a = Add(o, e) y = Div(x, a)",
        "y = Swish(x)",
    ],
    "mish": [
        "s = Softplus(x) t = Tanh(s) y = Mul(x, t)",
        f"{ONE} e = Exp(x) a = Add(e, o) l = Log(a) t = Tanh(l) y = Mul(t, x)",
        "y = Mish(x)",
    ],
}


def _find(body: str) -> Found | None:
    model = graph(f"g (float[2,4] x) => (float[2,4] y) {{ {body} }}", opset=24)
    return find_activation(list(model.graph)[-1])


@pytest.mark.parametrize(("kind", "body"), [(kind, body) for kind, ways in WAYS.items() for body in ways])
def test_every_way_of_writing_is_found(kind: str, body: str) -> None:
    found = _find(body)
    assert found is not None
    assert found.kind == kind
    assert found.source.name == "x"
    assert found.nodes[-1].outputs[0].name == "y"


@pytest.mark.parametrize(
    "body",
    [
        "s = Sigmoid(x) y = Mul(s, s)",
        f"{ONE} s = Sigmoid(x) a = Add(s, o) y = Mul(x, a)",
        "a = Constant<value_float=1.702>() b = Mul(x, a) s = Sigmoid(b) y = Mul(x, s)",
        "y = Mul(x, x)",
        "y = Relu(x)",
    ],
)
def test_what_only_looks_alike_is_not(body: str) -> None:
    assert _find(body) is None


def test_nodes_come_in_order_and_the_source_may_be_computed() -> None:
    model = graph(
        f"g (float[4] z, float[4] w) => (float[4] y) {{ x = Add(z, w) {HALF} {ONE} {ROOT} a = Div(x, r) b = Erf(a)"
        " c = Add(b, o) d = Mul(x, c) y = Mul(d, h) }"
    )
    found = find_activation(list(model.graph)[-1])
    assert found is not None
    assert [node.op_type for node in found.nodes] == ["Div", "Erf", "Add", "Mul", "Mul"]
    assert found.source.name == "x"


def test_a_part_that_others_use_is_not_taken() -> None:
    model = graph("g (float[4] x) => (float[4] y, float[4] s) { s = Sigmoid(x) y = Mul(x, s) }")
    assert find_activation(list(model.graph)[-1]) is None


def test_float16_constants_are_close_enough() -> None:
    rounded = "r = Constant<value_float=1.4140625>()"
    found = _find(f"{HALF} {ONE} {rounded} a = Div(x, r) b = Erf(a) c = Add(b, o) d = Mul(x, c) y = Mul(d, h)")
    assert found is not None
    assert found.kind == "gelu"
