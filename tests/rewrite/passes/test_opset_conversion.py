from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from chipwise.errors import RewriteError
from chipwise.rewrite.passes.opset_conversion import OpsetConversion, blocking_operators, opset_of
from tests.check.graphs import graph, with_initializers
from tests.rewrite.helpers import ops, rewritten, unchanged

HEADS = "float[1,2,4,8] q, float[1,2,4,8] k, float[1,2,4,8] v"

LOWERED = [
    ("g (float[2,4] x) => (float[2,4] y) { y = Gelu(x) }", 20, 19),
    ('g (float[2,4] x) => (float[2,4] y) { y = Gelu<approximate="tanh">(x) }', 20, 13),
    ("g (float[2,4] x) => (float[2,4] y) { y = Mish(x) }", 18, 17),
    ("g (float[2,4] x) => (float[2,4] y) { y = Swish<alpha=0.5>(x) }", 24, 17),
    ("g (float[2,4] x, float[4] s, float[4] b) => (float[2,4] y) { y = LayerNormalization(x, s, b) }", 17, 13),
    ("g (float[2,4] x, float[4] s) => (float[2,4] y) { y = RMSNormalization(x, s) }", 23, 17),
    (f"g ({HEADS}) => (float[1,2,4,8] y) {{ y = Attention(q, k, v) }}", 23, 17),
    (
        "g (float[1,2,4,8] x, float[1,4,4] c, float[1,4,4] s) => (float[1,2,4,8] y) { y = RotaryEmbedding(x, c, s) }",
        23,
        17,
    ),
    (
        "g (float[1,4,2,8] x, float[4] c, float[4] s) => (float[1,4,2,8] y)"
        " { y = GroupNormalization<num_groups=2>(x, c, s) }",
        21,
        17,
    ),
    ("g (float[2,4] x) => (float[2] y) { a = Constant<value_ints=[1]>() y = ReduceMean<keepdims=0>(x, a) }", 18, 13),
    ("g (float[2,5] x) => (float[2,3] y, float[2,2] z) { y, z = Split<axis=1,num_outputs=2>(x) }", 18, 13),
    ("g (float[2,4] x) => (int32[2,4] y) { y = Cast<to=6>(x) }", 21, 17),
    ("g (float[2,4] x) => (float[8] y) { a = Constant<value_ints=[8]>() y = Reshape(x, a) }", 21, 13),
    ('g (float[1,1,4,4] x, float[1,2,2,2] t) => (float[1,1,2,2] y) { y = GridSample<mode="linear">(x, t) }', 20, 19),
    ("g (float[2,4] x) => (float[2,2] y, int64[2,2] i) { a = Constant<value_ints=[2]>() y, i = TopK(x, a) }", 24, 11),
    (
        "g (float[1,1,4,4] x) => (float[1,1,8,8] y)"
        " { s = Constant<value_floats=[1.0,1.0,2.0,2.0]>() y = Resize(x, , s) }",
        19,
        11,
    ),
    ("g (float[2,4] x) => (float[2,4] y) { y = Softmax(x) }", 17, 11),
    ("g (float[2,1,4] x) => (float[2,4] y) { a = Constant<value_ints=[1]>() y = Squeeze(x, a) }", 17, 11),
]


@pytest.mark.parametrize(("body", "source", "target"), LOWERED)
def test_lowered_and_proven(body: str, source: int, target: int) -> None:
    result = rewritten(body, OpsetConversion(highest=target), opset=source)
    assert opset_of(result.model) == target
    assert result.steps[0].notes[0] == f"lowered opset {source} to {target}"
    assert result.steps[0].max_rel_diff < 1e-5
    onnx.checker.check_model(ir.to_proto(result.model), full_check=True)


def test_raised() -> None:
    result = rewritten(
        "g (float[2,4,3] x) => (float[2,4,3] y) { y = Softmax<axis=1>(x) }", OpsetConversion(lowest=13), opset=11
    )
    assert opset_of(result.model) == 13
    assert result.steps[0].max_abs_diff < 1e-6


def test_within_the_range_nothing_happens() -> None:
    unchanged("g (float[2] x) => (float[2] y) { y = Relu(x) }", OpsetConversion(highest=19, lowest=13))
    unchanged("g (float[2] x) => (float[2] y) { y = Relu(x) }", OpsetConversion())


def test_what_blocks_is_named() -> None:
    body = "g (float[4,4] x) => (float[4,4] y) { a = Trilu(x) y = Relu(a) }"
    with pytest.raises(RewriteError, match="opset 14 cannot be lowered to 13: Trilu blocks it"):
        rewritten(body, OpsetConversion(highest=13), opset=14)
    assert blocking_operators(graph(body, 14), 13) == ["Trilu"]
    assert blocking_operators(graph("g (float[2] x) => (float[2] y) { y = Gelu(x) }", 20), 19) == []


def test_what_the_standard_converter_cannot_is_named_too() -> None:
    body = "g (float[2,3,4] x, int64[2,1,1] i) => (float[2,1,4] y) { y = GatherND<batch_dims=1>(x, i) }"
    with pytest.raises(RewriteError, match="GatherND blocks it"):
        rewritten(body, OpsetConversion(highest=11), opset=13)


def test_weights_and_other_domains_come_through() -> None:
    body = (
        "g (float[2,64] x, float[64,64] w) => (float[2,64] y)"
        " { a = MatMul(x, w) b = com.microsoft.Gelu(a) c = Constant<value_ints=[1]>()"
        " d = ReduceMax(b, c) y = Add(b, d) }"
    )
    model = graph(body, 18, ', "com.microsoft": 1')
    weight = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    with_initializers(model, w=weight)
    result = rewritten(model, OpsetConversion(highest=13))
    assert ops(result.model) == ["MatMul", "Gelu", "ReduceMax", "Add"]
    assert [node.domain for node in result.model.graph] == ["", "com.microsoft", "", ""]
    assert np.array_equal(result.model.graph.initializers["w"].const_value.numpy(), weight)


def test_the_file_format_follows() -> None:
    model = graph("g (float[2] x) => (float[2] y) { y = Relu(x) }", 21)
    model.ir_version = 11
    assert rewritten(model, OpsetConversion(highest=17)).model.ir_version == 8
