from __future__ import annotations

import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chipwise.check.symbolic import dim_size, dim_symbols, input_dim_size, static_shape


@pytest.mark.parametrize(
    ("dim", "symbols", "size"),
    [
        (4, set(), 4),
        (-1, set(), None),
        (ir.SymbolicDim(None), set(), None),
        (ir.SymbolicDim("?"), set(), None),
        (ir.SymbolicDim("seq"), {"seq"}, 8),
        (ir.SymbolicDim("past + seq"), {"past", "seq"}, None),
        (ir.SymbolicDim("2*seq"), {"seq"}, 16),
        (ir.SymbolicDim("batch size"), {"batch size"}, 3),
        (ir.SymbolicDim("other"), {"other"}, None),
    ],
)
def test_dims(dim: int | ir.SymbolicDim, symbols: set[str], size: int | None) -> None:
    assert dim_symbols(dim) == symbols
    assert dim_size(dim, {"seq": 8, "batch size": 3}) == size


@given(st.text(max_size=12))
def test_no_name_is_an_accident(name: str) -> None:
    dim = ir.SymbolicDim(name)
    size = dim_size(dim, dict.fromkeys(dim_symbols(dim), 7))
    assert size is None or isinstance(size, int)


def test_an_input_dimension_may_be_named_by_its_place() -> None:
    value = ir.val("x", dtype=ir.DataType.FLOAT, shape=[None, "n"])
    assert input_dim_size(value, 0, {"x:0": 5}) == 5
    assert input_dim_size(value, 1, {"n": 6, "x:0": 5}) == 6
    assert input_dim_size(value, 0, {}) is None


def test_static_shape() -> None:
    value = ir.val("x", dtype=ir.DataType.FLOAT, shape=[2, "n"])
    assert static_shape(value) is None
    assert static_shape(value, {"n": 3}) == (2, 3)
    assert static_shape(None) is None
