from __future__ import annotations

import numpy as np

from chipwise.rewrite.passes.ort_fusions import OrtFusions
from tests.check.graphs import graph, with_initializers
from tests.rewrite.helpers import ops, rewritten, unchanged

RNG = np.random.default_rng(0)


def test_add_and_layer_normalization() -> None:
    body = (
        "g (float[1,4,8] a, float[1,4,8] b, float[8] w, float[8] c) => (float[1,4,8] y)"
        " { r = Add(a, b) y = LayerNormalization<axis=-1,epsilon=1e-5>(r, w, c) }"
    )
    model = with_initializers(
        graph(body), w=RNG.uniform(0.5, 2, 8).astype(np.float32), c=RNG.standard_normal(8).astype(np.float32)
    )
    result = rewritten(model, OrtFusions())
    assert ops(result.model) == ["SkipLayerNormalization"]
    assert result.model.graph.opset_imports["com.microsoft"] == 1
    assert result.steps[0].max_rel_diff < 1e-4


def test_add_and_rms_normalization() -> None:
    body = (
        "g (float[1,4,8] a, float[1,4,8] b, float[8] w) => (float[1,4,8] y, float[1,4,8] r) {"
        " r = Add(a, b) two = Constant<value_float=2.0>() p = Pow(r, two) ax = Constant<value_ints=[-1]>()"
        " mu = ReduceMean<keepdims=1,noop_with_empty_axes=0>(p, ax) e = Constant<value_float=1e-6>() v = Add(mu, e)"
        " sd = Sqrt(v) rc = Reciprocal(sd) n = Mul(r, rc) y = Mul(w, n) }"
    )
    model = with_initializers(graph(body, 18), w=RNG.uniform(0.5, 2, 8).astype(np.float32))
    result = rewritten(model, OrtFusions())
    assert "SkipSimplifiedLayerNormalization" in ops(result.model)


def test_nothing_to_fuse_leaves_the_graph_alone() -> None:
    unchanged("g (float[2] x) => (float[2] y) { y = Relu(x) }", OrtFusions())
