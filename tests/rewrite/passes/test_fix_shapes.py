from __future__ import annotations

import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chipwise.errors import InputError, QueryFileError, RewriteError
from chipwise.rewrite.passes.fix_shapes import FixShapes, length_for
from tests.rewrite.helpers import rewritten, unchanged

DYNAMIC = "g (float[B,S] x, float[B,past + S] z) => (float[B,T] y) { y = Concat<axis=1>(x, z) }"


def _shapes(result) -> dict[str, list[int | str]]:  # type: ignore[no-untyped-def]
    values = (*result.model.graph.inputs, *result.model.graph.outputs)
    return {value.name: [dim if isinstance(dim, int) else str(dim) for dim in value.shape] for value in values}


def test_names_and_expressions() -> None:
    body = DYNAMIC.replace("past + S", "P")
    result = rewritten(body, FixShapes(), dims={"B": 2, "S": 3, "P": 8})
    assert _shapes(result) == {"x": [2, 3], "z": [2, 8], "y": [2, 11]}
    assert result.steps[0].notes[0] == "fixed B=2, P=8, S=3"


def test_an_expression_takes_its_value() -> None:
    model = rewritten(DYNAMIC.replace("past + S", "P")).model
    model.graph.inputs[1].shape = ir.Shape(["B", "past + S"])
    result = rewritten(model, FixShapes(), dims={"B": 2, "S": 3, "past": 5})
    assert _shapes(result)["z"] == [2, 8]


def test_a_nameless_dimension_by_its_place() -> None:
    result = rewritten("g (float[?,4] x) => (float[?,4] y) { y = Relu(x) }", FixShapes(), dims={"x:0": 3})
    assert _shapes(result) == {"x": [3, 4], "y": [3, 4]}


def test_what_is_left_is_named() -> None:
    result = rewritten("g (float[B,S] x) => (float[B,S] y) { y = Relu(x) }", FixShapes(), dims={"B": 2})
    assert result.steps[0].notes[:2] == ("fixed B=2", "left symbolic: S")
    assert _shapes(result)["x"] == [2, "S"]


def test_static_shapes_stay() -> None:
    unchanged("g (float[2,4] x) => (float[2,4] y) { y = Relu(x) }", FixShapes())


@pytest.mark.parametrize(
    ("dims", "said"),
    [
        ({"B": 0}, "must be positive"),
        ({"batch": 1}, "no symbolic dimension batch"),
        ({"x:1": 4}, "no symbolic dimension x:1"),
    ],
)
def test_wrong_sizes(dims: dict[str, int], said: str) -> None:
    with pytest.raises(InputError, match=said):
        rewritten("g (float[B,4] x) => (float[B,4] y) { y = Relu(x) }", FixShapes(), dims=dims)


def test_a_size_that_the_model_refuses_is_an_error() -> None:
    body = "g (float[B,S] x) => (float[4] y) { s = Constant<value_ints=[4]>() y = Reshape(x, s) }"
    with pytest.raises(RewriteError, match="give real inputs"):
        rewritten(body, FixShapes(), dims={"B": 3, "S": 5})


@pytest.mark.parametrize(
    ("lengths", "share", "multiple", "expected"),
    [
        (list(range(1, 101)), 0.95, 32, 96),
        (list(range(1, 101)), 0.97, 32, 128),
        ([50] * 95 + [400] * 5, 0.95, 32, 64),
        ([50] * 94 + [400] * 6, 0.95, 32, 416),
        ([1], 0.95, 32, 32),
        ([33], 1.0, 1, 33),
        (list(range(1, 101)), 0.07, 1, 7),
    ],
)
def test_length_for(lengths: list[int], share: float, multiple: int, expected: int) -> None:
    assert length_for(lengths, share, multiple) == expected


@given(st.lists(st.integers(1, 4096), min_size=1, max_size=60), st.floats(0.01, 1.0), st.sampled_from([1, 16, 32]))
def test_length_for_covers_the_share_and_no_more(lengths: list[int], share: float, multiple: int) -> None:
    length = length_for(lengths, share, multiple)
    assert length % multiple == 0
    assert sum(one <= length for one in lengths) >= share * len(lengths) - 1e-6
    shorter = length - multiple
    assert sum(one <= shorter for one in lengths) < share * len(lengths) or shorter == 0


@pytest.mark.parametrize("lengths", [[], [0], [5, -1]])
def test_no_lengths(lengths: list[int]) -> None:
    with pytest.raises(QueryFileError):
        length_for(lengths)


@pytest.mark.parametrize(("share", "multiple"), [(0.0, 32), (1.1, 32), (0.9, 0)])
def test_wrong_shares(share: float, multiple: int) -> None:
    with pytest.raises(InputError):
        length_for([5], share, multiple)
