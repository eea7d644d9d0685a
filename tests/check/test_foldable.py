from __future__ import annotations

from chipwise.check.foldable import foldable_nodes
from tests.check.graphs import graph


def _ops(body: str) -> list[str]:
    return sorted(node.op_type for node in foldable_nodes(graph(body)))


def test_what_follows_from_shapes_folds() -> None:
    body = (
        "g (float[B,S] x) => (float[B,S] y) { s = Shape(x) i = Constant<value_int=1>() n = Gather(s, i)"
        " z = Constant<value_int=0>() o = Constant<value_int=1>() r = Range(z, n, o) f = Cast<to=1>(r) y = Add(x, f) }"
    )
    assert _ops(body) == ["Cast", "Constant", "Constant", "Constant", "Gather", "Range", "Shape"]


def test_what_follows_from_data_stays() -> None:
    assert _ops("g (float[2] x) => (float[2] y) { a = Relu(x) y = Neg(a) }") == []


def test_quantized_weights_stay_quantized() -> None:
    body = (
        "g (float[2] x) => (float[2] y) <int8[2] w = {1,2}> { s = Constant<value_float=0.5>()"
        " d = DequantizeLinear(w, s) y = Add(x, d) }"
    )
    assert "DequantizeLinear" not in _ops(body)
