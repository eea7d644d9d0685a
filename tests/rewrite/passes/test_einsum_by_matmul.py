from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chipwise.rewrite.passes.einsum_by_matmul import EinsumByMatMul
from tests.rewrite.helpers import ops, rewritten, unchanged

SIZES = {"a": 2, "b": 3, "c": 4, "d": 5, "e": 1}


def _body(left: str, right: str, result: str, arrow: str = "->") -> str:
    x, z, y = (",".join(str(SIZES[letter]) for letter in one) for one in (left, right, result))
    kind = f"float[{y}]" if y else "float"
    return (
        f"g (float[{x}] x, float[{z}] z) => ({kind} y)"
        f' {{ y = Einsum<equation="{left},{right}{arrow}{result if arrow else ""}">(x, z) }}'
    )


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [
        ("ab", "bc", "ac"),
        ("abc", "acd", "abd"),
        ("abc", "adc", "abd"),
        ("abcd", "cde", "eab"),
        ("ab", "ab", ""),
        ("a", "b", "ab"),
        ("a", "a", "a"),
        ("abc", "cb", "a"),
    ],
)
def test_products(left: str, right: str, result: str) -> None:
    done = rewritten(_body(left, right, result), EinsumByMatMul())
    assert "Einsum" not in ops(done.model)
    assert "MatMul" in ops(done.model)
    assert done.steps[0].max_rel_diff < 1e-5


def test_the_plain_product_is_one_node() -> None:
    assert ops(rewritten(_body("abc", "acd", "abd"), EinsumByMatMul()).model) == ["MatMul"]


def test_an_equation_without_a_result() -> None:
    assert "Einsum" not in ops(rewritten(_body("ab", "bc", "ac", arrow=""), EinsumByMatMul()).model)


@settings(max_examples=25)
@given(st.permutations("abcd"), st.permutations("abcd"), st.integers(1, 4), st.integers(1, 4), st.data())
def test_any_two_operands(one: list[str], two: list[str], n: int, m: int, data: st.DataObject) -> None:
    left, right = "".join(one[:n]), "".join(two[:m])
    shared = sorted(set(left) & set(right))
    kept = data.draw(st.lists(st.sampled_from(shared), unique=True)) if shared else []
    result = "".join(data.draw(st.permutations([*kept, *(set(left) ^ set(right))])))
    done = rewritten(_body(left, right, result), EinsumByMatMul())
    assert "Einsum" not in ops(done.model)


@pytest.mark.parametrize(
    "body",
    [
        'g (float[2,3] x) => (float[3,2] y) { y = Einsum<equation="ab->ba">(x) }',
        'g (float[2,2] x, float[2] z) => (float[2] y) { y = Einsum<equation="aa,a->a">(x, z) }',
        'g (float[2,3] x, float[3] z) => (float[3] y) { y = Einsum<equation="ab,b->b">(x, z) }',
        'g (float[2,3] x, float[3,4] z) => (float[2,4] y) { y = Einsum<equation="...b,bc->...c">(x, z) }',
        'g (float[N,3] x, float[3,4] z) => (float[N,4] y) { y = Einsum<equation="ab,bc->ac">(x, z) }',
    ],
)
def test_what_is_beyond_it_stays_and_is_named(body: str) -> None:
    (note,) = unchanged(body, EinsumByMatMul())
    assert "stays: " in note
