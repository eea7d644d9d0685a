from __future__ import annotations

import onnx_ir as ir
from hypothesis import given, settings
from hypothesis import strategies as st

from chipwise.check.constants import constant_array
from chipwise.rewrite.passes.index_forms import IndexForms
from tests.rewrite.helpers import rewritten, unchanged

SLICE = (
    "g (float[{shape}] x) => (float[A,C] y) {{ s = Constant<value_ints=[{start}]>() e = Constant<value_ints=[{end}]>()"
    " a = Constant<value_ints=[{axis}]>() t = Constant<value_ints=[{step}]>() y = Slice(x, s, e, a, t) }}"
)


def _indices(model: ir.Model) -> list[list[int]]:
    node = next(node for node in model.graph if node.op_type in ("Slice", "Gather"))
    return [array.reshape(-1).tolist() for value in node.inputs[1:3] if (array := constant_array(value)) is not None]


def test_a_negative_gather_index() -> None:
    body = "g (float[2,4] x) => (float[2] y) { i = Constant<value_int=-1>() y = Gather<axis=1>(x, i) }"
    result = rewritten(body, IndexForms())
    assert _indices(result.model) == [[3]]
    assert result.steps[0].max_abs_diff == 0.0


def test_an_end_of_two_to_the_63() -> None:
    body = SLICE.format(shape="3,5", start=1, end=2**63 - 1, axis=-1, step=1)
    assert _indices(rewritten(body, IndexForms()).model) == [[1], [5]]


def test_along_an_unknown_size_it_fits_32_bits() -> None:
    body = SLICE.format(shape="N,M", start=-2, end=2**63 - 1, axis=-1, step=1)
    assert _indices(rewritten(body, IndexForms()).model) == [[-2], [2**31 - 1]]


def test_backwards_and_plain_slices_stay() -> None:
    unchanged(SLICE.format(shape="3,5", start=-1, end=-(2**63) + 1, axis=1, step=-1), IndexForms())
    unchanged(SLICE.format(shape="3,5", start=1, end=4, axis=1, step=1), IndexForms())


def test_a_gather_by_data_stays() -> None:
    unchanged("g (float[2,4] x, int64[3] i) => (float[2,3] y) { y = Gather<axis=1>(x, i) }", IndexForms())


@settings(max_examples=25)
@given(st.integers(-7, 7), st.integers(-7, 7), st.integers(1, 3), st.sampled_from([0, 1, -1, -2]))
def test_any_slice_means_the_same(start: int, end: int, step: int, axis: int) -> None:
    body = SLICE.format(shape="3,5", start=start, end=end, axis=axis, step=step)
    result = rewritten(body, IndexForms())
    assert not result.steps[0].dropped
    assert all(index >= 0 for array in _indices(result.model) for index in array)
