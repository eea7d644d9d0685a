from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from chipwise.rewrite.passes.split_wide_matmul import SplitWideMatMul
from tests.check.graphs import graph, with_initializers
from tests.rewrite.helpers import ops, rewritten, unchanged

RNG = np.random.default_rng(0)
SPLIT = SplitWideMatMul(5)


def _model(body: str, **shapes: tuple[int, ...]) -> ir.Model:
    arrays = {name: RNG.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    return with_initializers(graph(body), **arrays)


def _widths(model: ir.Model) -> list[int]:
    return [node.outputs[0].shape[-1] for node in model.graph if node.op_type in ("MatMul", "Gemm")]


def test_the_pieces_are_of_one_size_as_far_as_that_goes() -> None:
    model = _model("g (float[1,2,4] x, float[4,11] w) => (float[1,2,11] y) { y = MatMul(x, w) }", w=(4, 11))
    result = rewritten(model, SPLIT)
    assert ops(result.model) == ["MatMul", "MatMul", "MatMul", "Concat"]
    assert _widths(result.model) == [4, 4, 3]
    assert "11 columns in 3 pieces" in result.steps[0].notes[0]
    assert "w" not in result.model.graph.initializers
    # What stays in float16 is named by the weight, and a piece must be found by that name.
    assert all(name.startswith("w_") for name in result.model.graph.initializers)


def test_a_bias_behind_it_is_split_too() -> None:
    body = (
        "g (float[2,4] x, float[4,10] w, float[10] b) => (float[2,10] y) { m = MatMul(x, w) a = Add(b, m) y = Relu(a) }"
    )
    result = rewritten(_model(body, w=(4, 10), b=(10,)), SPLIT)
    assert ops(result.model) == ["MatMul", "Add", "MatMul", "Add", "Concat", "Relu"]


@pytest.mark.parametrize("bias", [(10,), (1, 10), (1,), (2, 1)])
def test_gemm_transposed_with_any_bias(bias: tuple[int, ...]) -> None:
    shape = ",".join(map(str, bias))
    body = (
        f"g (float[2,4] x, float[10,4] w, float[{shape}] b) => (float[2,10] y)"
        " { y = Gemm<transB=1, alpha=0.5, beta=2.0>(x, w, b) }"
    )
    result = rewritten(_model(body, w=(10, 4), b=bias), SPLIT)
    assert ops(result.model) == ["Gemm", "Gemm", "Concat"]


def test_a_computed_bias_keeps_it_whole() -> None:
    body = "g (float[2,4] x, float[4,10] w, float[10] b) => (float[2,10] y) { y = Gemm(x, w, b) }"
    unchanged(_model(body, w=(4, 10)), SPLIT)


def test_a_bias_that_is_not_the_only_use() -> None:
    body = (
        "g (float[2,4] x, float[4,10] w, float[10] b) => (float[2,10] y, float[2,10] m)"
        " { m = MatMul(x, w) y = Add(m, b) }"
    )
    result = rewritten(_model(body, w=(4, 10), b=(10,)), SPLIT)
    assert ops(result.model) == ["MatMul", "MatMul", "Concat", "Add"]


def test_narrow_ones_stay() -> None:
    unchanged(_model("g (float[2,4] x, float[4,5] w) => (float[2,5] y) { y = MatMul(x, w) }", w=(4, 5)), SPLIT)
