from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import numpy as np
import onnx_ir as ir
import pytest
from onnx import helper as oh

from chipwise.errors import InputError, RewriteError
from chipwise.quant.calibration import ValueRange, calibrate, exceeding
from tests.quant.small_graphs import graph


def _chain(width: int = 4) -> ir.Model:
    nodes = [
        oh.make_node("Relu", ["x"], ["positive"]),
        oh.make_node("Neg", ["positive"], ["negative"]),
        oh.make_node("Log", ["x"], ["log"]),
        oh.make_node("Add", ["negative", "log"], ["y"]),
    ]
    return graph(nodes, {"x": ["n", width]}, {"y": ["n", width]}, {})


def _feeds(*scales: float) -> list[dict[str, np.ndarray]]:
    return [{"x": np.array([[1, 2, 3, 4]], np.float32) * np.float32(scale)} for scale in scales]


def test_the_range_over_all_samples() -> None:
    found = calibrate(_chain(), _feeds(1, 10, 0.5), ["negative", "x"])
    assert list(found) == ["negative", "x"]
    assert (found["negative"].low, found["negative"].high) == (-40, -0.5)
    assert (found["x"].low, found["x"].high) == (0.5, 40)


def test_values_in_groups_are_the_same_as_all_at_once() -> None:
    names = ["positive", "negative", "log"]
    steps: list[tuple[int, int]] = []
    at_once = calibrate(_chain(), _feeds(1, 3), names)
    in_groups = calibrate(_chain(), _feeds(1, 3), names, max_bytes=20, progress=lambda *of: steps.append(of))
    assert at_once == in_groups
    assert steps[-1] == (6, 6)


def test_the_model_is_not_changed() -> None:
    model = _chain()
    before = ir.to_proto(model).SerializeToString()
    calibrate(model, _feeds(1), ["log"])
    assert ir.to_proto(model).SerializeToString() == before


def test_nothing_of_a_sample_is_kept() -> None:
    class Many:
        def __len__(self) -> int:
            return 64

        def __iter__(self) -> Iterator[dict[str, np.ndarray]]:
            return ({"x": np.full((2000, 4), i + 1, np.float32)} for i in range(64))

    calibrate(_chain(), Many(), ["positive"])
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    found = calibrate(_chain(), Many(), ["positive", "negative", "log"], histograms=True)
    after, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    one_sample = 3 * 2000 * 4 * 4
    assert found["positive"].high == 64
    assert after - before < 4 * one_sample
    assert peak - before < 20 * one_sample


def test_no_samples() -> None:
    with pytest.raises(InputError, match="no calibration samples; give --queries"):
        calibrate(_chain(), [], ["log"])


def test_a_value_that_is_not_finite_names_itself_and_the_sample() -> None:
    feeds = [*_feeds(1), {"x": np.array([[1, -1, 2, 3]], np.float32)}]
    with pytest.raises(RewriteError, match="value log: NaN or infinite in calibration sample 2"):
        calibrate(_chain(), feeds, ["log"])


def test_a_value_the_graph_does_not_compute() -> None:
    with pytest.raises(RewriteError, match="no value named 'sine'"):
        calibrate(_chain(), _feeds(1), ["sine"])


def test_a_sample_that_does_not_fit() -> None:
    with pytest.raises(InputError, match="lacks x"):
        calibrate(_chain(), [{"z": np.ones((1, 4), np.float32)}], ["log"])


def test_ranges_that_were_cut() -> None:
    rare = np.ones((1000, 4), np.float32)
    rare[0, 0] = 1000
    found = calibrate(_chain(), [{"x": rare}], ["positive"], histograms=True)["positive"]
    assert found.high == 1000
    assert found.clipped(0.99).high < 10
    assert found.clipped(1.0).high == 1000
    assert ValueRange(0, 5).clipped(0.5) == ValueRange(0, 5)
    assert ValueRange(0, 5).tightened() == ValueRange(0, 5)


def test_what_goes_beyond_its_range() -> None:
    calibrated = {"a": ValueRange(-1, 1), "b": ValueRange(0, 4), "c": ValueRange(0, 0), "gone": ValueRange(0, 1)}
    seen = {"a": ValueRange(-1.1, 1.05), "b": ValueRange(-1, 8), "c": ValueRange(0, 0.1), "new": ValueRange(0, 9)}
    found = exceeding(calibrated, seen, slack=0.1)
    assert [(one.name, one.factor) for one in found] == [("c", float("inf")), ("b", 2.0)]
    assert [one.name for one in exceeding(calibrated, seen, slack=0.04)] == ["c", "b", "a"]
