from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from chipwise.rewrite.passes.reshaped_attention import ReshapedAttention
from tests.check.graphs import graph, with_initializers
from tests.rewrite.helpers import ops, rewritten, unchanged

RNG = np.random.default_rng(0)
PASS = ReshapedAttention()
PROJECTED = "q = MatMul(x, wq) k = MatMul(x, wk) v = MatMul(x, wv)"
PERMS = {2: "1,0", 3: "0,2,1", 4: "0,1,3,2"}


def _model(shape: tuple[int, ...], between: str, *, inputs: str = "", project: str = PROJECTED) -> ir.Model:
    sizes = ",".join(map(str, shape))
    body = (
        f"g (float[{sizes}] x, float[4,4] wq, float[4,4] wk, float[4,4] wv{inputs}) => (float[{sizes}] y)"
        f" {{ {project} t = Transpose<perm=[{PERMS[len(shape)]}]>(k) s = MatMul(q, t)"
        f" c = Constant<value_float=0.5>() {between} y = MatMul(p, v) }}"
    )
    weights = {name: RNG.standard_normal((4, 4)).astype(np.float32) for name in ("wq", "wk", "wv")}
    return with_initializers(graph(body), **weights)


def _shapes(model: ir.Model, op: str) -> list[tuple[int, ...]]:
    return [tuple(node.outputs[0].shape.numpy()) for node in model.graph if node.op_type == op]


@pytest.mark.parametrize("shape", [(3, 4), (1, 3, 4), (2, 3, 4), (2, 5, 3, 4)])
def test_any_rank_becomes_four_dimensions(shape: tuple[int, ...]) -> None:
    result = rewritten(_model(shape, "m = Mul(s, c) p = Softmax<axis=-1>(m)"), PASS)
    assert result.steps[0].modified
    batch = int(np.prod(shape[:-2]))
    assert _shapes(result.model, "Softmax") == [(batch, 1, 3, 3)]
    assert ops(result.model)[-1] == "Reshape"
    assert tuple(result.model.graph.outputs[0].shape.numpy()) == shape


@pytest.mark.parametrize("sizes", ["3,3", "1,3,3", "2,3,3", "1,1,3,3", "2,1,3,3"])
def test_masks_of_any_rank(sizes: str) -> None:
    shape = (2, 1, 3, 4) if sizes.count(",") == 3 else (2, 3, 4)
    between = "m = Mul(s, c) j = Add(mask, m) p = Softmax<axis=-1>(j)"
    result = rewritten(_model(shape, between, inputs=f", float[{sizes}] mask"), PASS)
    assert result.steps[0].modified


def test_a_selecting_mask() -> None:
    model = _model((2, 3, 4), "m = Where(mask, s, c) p = Softmax<axis=2>(m)", inputs=", bool[1,3,3] mask")
    assert rewritten(model, PASS).steps[0].modified


def test_scaled_and_biased_operands_are_direct_too() -> None:
    project = "a = MatMul(x, wq) h = Constant<value_float=0.5>() q = Mul(a, h) k = Identity(x) v = MatMul(x, wv)"
    assert rewritten(_model((1, 3, 4), "p = Softmax<axis=-1>(s)", project=project), PASS).steps[0].modified


@pytest.mark.parametrize(
    ("between", "project"),
    [
        ("p = Softmax<axis=1>(s)", PROJECTED),
        ("r = Relu(s) p = Softmax<axis=-1>(r)", PROJECTED),
        ("p0 = Softmax<axis=-1>(s) p = Relu(p0)", PROJECTED),
        ("m = Add(s, s) p = Softmax<axis=-1>(m)", PROJECTED),
        (
            "p = Softmax<axis=-1>(s)",
            "n = Constant<value_ints=[1,3,4]>() q0 = MatMul(x, wq) q = Reshape(q0, n) k0 = MatMul(x, wk)"
            " k = Reshape(k0, n) v = MatMul(x, wv)",
        ),
    ],
    ids=["another axis", "not elementwise", "weights used otherwise", "scores used twice", "reshaped already"],
)
def test_what_stays(between: str, project: str) -> None:
    unchanged(_model((1, 3, 4), between, project=project), PASS)


def test_a_mask_along_one_of_two_leading_dimensions_stays() -> None:
    between = "j = Add(s, mask) p = Softmax<axis=-1>(j)"
    unchanged(_model((2, 5, 3, 4), between, inputs=", float[2,1,3,3] mask"), PASS)


def test_no_attention_no_change() -> None:
    unchanged("g (float[2,3] x) => (float[2,3] y) { y = Softmax<axis=-1>(x) }", PASS)
