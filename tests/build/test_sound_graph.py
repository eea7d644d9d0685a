from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from chipwise.build.graph_file import GraphFile
from chipwise.build.samples import Samples
from chipwise.build.sound_graph import require_numbers, require_sound
from chipwise.errors import ChipwiseError, GraphError, InputError
from tests.check.graphs import graph, with_initializers


def _require(model: ir.Model, *, drawn: bool = False, **feed: np.ndarray) -> None:
    require_sound(model, Samples([feed], [feed], "here", not drawn, True, drawn), where="m.onnx", threads=1)


X = np.ones((1, 4), np.float32)
PRODUCT = "g (float[1,4] x, float[4,4] w) => (float[1,4] y) { y = MatMul(x, w) }"


def _product(weight: np.ndarray) -> ir.Model:
    return with_initializers(graph(PRODUCT), w=weight)


def test_a_graph_that_runs_passes() -> None:
    _require(_product(np.eye(4, dtype=np.float32)), x=X)


@pytest.mark.parametrize(
    ("weight", "kind", "line"),
    [
        (np.eye(4), GraphError, r"m\.onnx: the graph as it came does not load \(.*different types.*export it again"),
        (np.zeros((4, 4), np.float32), InputError, r"every output is zero on each of 1 samples.*made for"),
    ],
)
def test_what_is_wrong_with_it_is_said_before_anything_is_built(
    weight: np.ndarray, kind: type[ChipwiseError], line: str
) -> None:
    with pytest.raises(kind, match=line):
        _require(_product(weight), x=X)


def test_a_nan_matters_once_the_passes_are_through(tmp_path: Path) -> None:
    model = _product(np.full((4, 4), np.nan, np.float32))
    _require(model, x=X)
    file = GraphFile.save(model, tmp_path, "reference", {})
    with pytest.raises(GraphError, match=r"m\.onnx: in float32 its output y is NaN on a drawn sample"):
        require_numbers(file, Samples([{"x": X}], [{"x": X}], "here", False, True, True), where="m.onnx", threads=1)
    sound = GraphFile.save(_product(np.eye(4, dtype=np.float32)), tmp_path, "sound", {})
    require_numbers(sound, Samples([{"x": X}], [{"x": X}], "here", True, True), where="m.onnx", threads=1)


def test_one_sample_that_gives_something_is_enough() -> None:
    silent, loud = {"x": np.zeros((1, 4), np.float32)}, {"x": X}
    model = graph("g (float[1,4] x) => (int64[1,1] y, float[1,4] z) { y = ArgMax<axis=1>(x) z = Relu(x) }")
    samples = Samples([silent], [silent, loud], "here", True, False)
    require_sound(model, samples, where="m.onnx", threads=1)


def test_drawn_inputs_may_be_at_fault() -> None:
    model = graph("g (float[1,4] x, int64[1] n) => (float[1,N] y) { y = Expand(x, n) }")
    with pytest.raises(InputError, match=r"fails on inputs.*give real inputs with --samples"):
        _require(model, drawn=True, x=X, n=np.array([3]))


def test_an_infinity_is_for_the_gate_to_judge() -> None:
    _require(graph("g (float[1,4] x) => (float[1,4] y) { y = Log(x) }"), x=np.array([[0, 1, 2, 3]], np.float32))
