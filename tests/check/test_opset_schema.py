from __future__ import annotations

import pytest

from chipwise.check.opset_schema import accepted, schema_of, survives, unchanged
from tests.check.graphs import graph


def _node(body: str, opset: int):  # type: ignore[no-untyped-def]
    return next(node for node in graph(body, opset).graph if node.op_type != "Constant")


def test_schema_of() -> None:
    assert schema_of("Gelu", 19) is None
    assert schema_of("Gelu", 20) is not None
    assert schema_of("NoSuchOperator", 20) is None


@pytest.mark.parametrize(
    ("body", "source", "target", "expected"),
    [
        ("g (float[2] x) => (float[2] y) { y = Relu(x) }", 21, 13, True),
        ("g (float[2] x) => (int32[2] y) { y = Cast<to=6, saturate=1>(x) }", 21, 17, False),
        ("g (float[2,2] x) => (float[2,2] y) { y = Softmax(x) }", 17, 11, False),
        ("g (float[2] x) => (float[2] y) { y = Gelu(x) }", 20, 19, False),
        ("g (float[2,4] x) => (float[2] y) { a = Constant<value_ints=[1]>() y = ReduceMean(x, a) }", 18, 17, False),
        ("g (bfloat16[2] x) => (bfloat16[2] y) { y = Relu(x) }", 17, 11, False),
    ],
)
def test_accepted(body: str, source: int, target: int, expected: bool) -> None:
    assert accepted(_node(body, source), source, target) is expected


def test_unchanged_and_survives() -> None:
    softmax = _node("g (float[2,2] x) => (float[2,2] y) { y = Softmax(x) }", 17)
    assert unchanged(softmax, 17, 13)
    assert not unchanged(softmax, 17, 12)
    assert not survives(softmax, 12)
    assert survives(_node("g (float[2] x) => (float[2] y) { y = Relu(x) }", 17), 11)
