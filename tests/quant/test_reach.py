from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from chipwise.errors import RewriteError
from chipwise.quant.reach import Reach, measure_reach

GRAPH = """<ir_version: 9, opset_import: ["": 17]>
g (int64[1,tokens] input_ids, float[8,2] table) => (float[1,tokens,2] y) {
  x = Gather(table, input_ids)
  y = Neg(x)
}"""
TABLE = np.array([[0, 0], [1, 0], [0, 2], [-3, 0], [0, 4], [1, 1], [0, -1], [2, 2]], np.float32)


def _feeds(*texts: list[int]) -> list[dict[str, np.ndarray]]:
    return [{"input_ids": np.array([text], np.int64), "table": TABLE} for text in texts]


def _reach(*texts: list[int]) -> Reach:
    return measure_reach(ir.from_onnx_text(GRAPH), _feeds(*texts), ["x", "y"], threads=1)


def test_the_ends_of_each_token() -> None:
    reach = _reach([1, 3], [6, 7, 4])
    assert reach.texts.tolist() == [0, 0, 1, 1, 1]
    assert reach.places.tolist() == [0, 1, 0, 1, 2]
    assert reach.highs[:, 0].tolist() == [1, 0, 0, 2, 4]
    assert reach.lows[:, 0].tolist() == [0, -3, -1, 2, 0]
    assert reach.highs[:, 1].tolist() == [0, 3, 1, -2, 0]


def test_the_furthest_tokens_come_first_and_no_more_than_go_further() -> None:
    """4 is the highest, -3 the lowest: nothing is left to reach once both are in."""
    assert _reach([1, 3], [6, 7, 4]).furthest(10) == [(0, 1), (1, 2)] or _reach([1, 3], [6, 7, 4]).furthest(10) == [
        (1, 2),
        (0, 1),
    ]
    assert len(_reach([1, 3], [6, 7, 4]).furthest(1)) == 1


def test_texts_and_parts_of_them() -> None:
    reach = _reach([1, 3], [6, 7, 4], [1, 1])
    assert sorted(reach.of_texts().furthest(10)) == [(0, 0), (1, 0)]
    assert reach.within(range(1, 9)).places.tolist() == [1, 1, 2, 1]
    assert reach.within(range(5, 9)).furthest(3) == []


def test_a_value_that_is_not_there() -> None:
    with pytest.raises(RewriteError, match="computes no value named 'z'"):
        measure_reach(ir.from_onnx_text(GRAPH), _feeds([1, 2]), ["z"], threads=1)


@given(arrays(np.float32, st.tuples(st.integers(1, 12), st.integers(1, 5)), elements=st.floats(-100, 100, width=32)))
def test_all_of_the_way_is_gone_with_enough_tokens(ends: np.ndarray) -> None:
    n = len(ends)
    reach = Reach(np.zeros(n, np.int64), np.arange(n), ends - 1, ends)
    chosen = [place for _, place in reach.furthest(10 * n)]
    assert len(set(chosen)) == len(chosen) <= n
    assert np.array_equal(np.maximum(ends[chosen].max(0, initial=0), 0), np.maximum(ends.max(0), 0))
    assert np.array_equal(np.minimum((ends - 1)[chosen].min(0, initial=0), 0), np.minimum((ends - 1).min(0), 0))
