from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from chipwise.errors import RewriteError
from chipwise.rewrite.pass_ import EXACT, ROUNDED, RewriteContext, Tolerance
from chipwise.rewrite.prove import compare, compare_runs, prove, require
from tests.check.graphs import graph

NAN, INF = float("nan"), float("inf")
DOUBLE = "g (float[4] x) => (float[4] y) {{ c = Constant<value_float={}>() y = Mul(x, c) }}"


def _compare(before: list[float], after: list[float]) -> tuple[float, float, int]:
    found = compare("y", np.array(before, np.float32), np.array(after, np.float32))
    return found.max_abs, found.max_rel, found.cured


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([1.0, -4.0], [1.0, -4.0], (0.0, 0.0, 0)),
        ([1.0, -4.0], [1.0, -3.0], (1.0, 0.25, 0)),
        ([NAN, 1.0], [NAN, 1.0], (0.0, 0.0, 0)),
        ([INF, 1.0], [INF, 1.0], (0.0, 0.0, 0)),
        ([INF, 1.0], [-INF, 1.0], (INF, INF, 0)),
        ([1.0, 1.0], [NAN, 1.0], (INF, INF, 0)),
        ([1.0, 1.0], [INF, 1.0], (INF, INF, 0)),
        ([NAN, 2.0], [7.0, 2.0], (0.0, 0.0, 1)),
        ([0.0, 0.0], [0.0, 0.5], (0.5, 1.0, 0)),
        ([], [], (0.0, 0.0, 0)),
    ],
)
def test_compare(before: list[float], after: list[float], expected: tuple[float, float, int]) -> None:
    assert _compare(before, after) == expected


def test_integers_must_be_equal() -> None:
    assert compare("y", np.array([1, 2]), np.array([1, 2])).within(EXACT)
    assert not compare("y", np.array([1, 2]), np.array([1, 3])).within(Tolerance(max_rel=10.0))
    assert not compare("y", np.array([True]), np.array([False])).within(ROUNDED)
    assert compare("y", np.array(["a"]), np.array(["a"])).within(EXACT)
    assert not compare("y", np.array(["a"]), np.array(["b"])).within(ROUNDED)


def test_types_may_widen() -> None:
    assert compare("y", np.array([1.5], np.float16), np.array([1.5], np.float32)).within(EXACT)


def test_a_changed_shape_is_an_error() -> None:
    with pytest.raises(RewriteError, match=r"from \[2\] to \[1, 2\]"):
        compare("y", np.zeros(2), np.zeros((1, 2)))


@given(hnp.arrays(np.float32, hnp.array_shapes(max_dims=3, max_side=4), elements=st.floats(width=32)))
def test_an_array_equals_itself(array: np.ndarray) -> None:  # type: ignore[type-arg]
    found = compare("y", array, array.copy())
    assert (found.max_abs, found.max_rel, found.cured) == (0.0, 0.0, 0)


@given(
    hnp.arrays(np.float32, 5, elements=st.floats(-1e6, 1e6, width=32)),
    hnp.arrays(np.float32, 5, elements=st.floats(-1e6, 1e6, width=32)),
)
def test_the_difference_is_the_largest(a: np.ndarray, b: np.ndarray) -> None:  # type: ignore[type-arg]
    found = compare("y", a, b)
    assert found.max_abs == np.max(np.abs(a.astype(np.float64) - b.astype(np.float64)))
    assert 0 <= found.max_rel <= 2


def test_the_worst_sample_counts() -> None:
    before = [{"y": np.array([1.0])}, {"y": np.array([2.0])}]
    after = [{"y": np.array([1.0])}, {"y": np.array([2.5])}]
    proof = compare_runs(before, after)
    assert proof.worst is not None
    assert proof.worst.max_abs == 0.5
    with pytest.raises(RewriteError, match="the output is gone"):
        compare_runs(before, [{}, {}])


def test_a_proof_that_fails_names_pass_output_and_difference() -> None:
    proof = compare_runs([{"logits": np.array([2.0])}], [{"logits": np.array([2.5])}])
    with pytest.raises(RewriteError, match=r"the pass bad changes output logits by 0\.5"):
        require(proof, ROUNDED, "bad")
    require(proof, Tolerance(max_rel=0.3), "bad")


def test_a_cured_nan_needs_leave() -> None:
    proof = compare_runs([{"y": np.array([NAN])}], [{"y": np.array([1.0])}])
    with pytest.raises(RewriteError, match="1 NaN became finite"):
        require(proof, ROUNDED, "bad")
    require(proof, Tolerance(cures_nan=True), "good")


def test_prove_on_real_and_on_drawn_inputs() -> None:
    one, same = graph(DOUBLE.format(2.0)), graph(DOUBLE.format(2.000001))
    drawn = prove(one, same, RewriteContext(), tolerance=ROUNDED, pass_name="p")
    assert "drawn inputs" in drawn.notes[0]
    real = prove(one, same, RewriteContext(samples=({"x": np.ones(4)},)), tolerance=ROUNDED, pass_name="p")
    assert real.notes == ()
    with pytest.raises(RewriteError, match="changes output y"):
        prove(one, graph(DOUBLE.format(3.0)), RewriteContext(), tolerance=ROUNDED, pass_name="p")


def test_drawn_inputs_that_fail_ask_for_real_ones() -> None:
    model = graph("g (float[N] x) => (float[3] y) { s = Constant<value_ints=[3]>() y = Reshape(x, s) }")
    with pytest.raises(RewriteError, match="give real inputs"):
        prove(model, model, RewriteContext(), tolerance=EXACT, pass_name="p")
