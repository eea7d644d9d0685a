from __future__ import annotations

import numpy as np

from chipwise.check.linears import linears
from tests.check.graphs import given_decoder, given_graph, graph, target, with_initializers


def test_a_decoders_layers() -> None:
    found = {one.name: one for one in linears(given_decoder(target()))}
    assert (found["mlp.down_proj"].k, found["mlp.down_proj"].n, found["mlp.down_proj"].count) == (160, 64, 2)
    assert (found["lm_head"].n, found["lm_head"].is_head) == (1000, True)


def test_a_graphs_products_with_constants() -> None:
    body = (
        "g (float[2,8] x, float[8,5] w, float[3,8] t, float[4,2,3,3] c, float[1,2,6,6] i)"
        " => (float[2,5] y, float[2,3] z, float[1,4,4,4] f, float[2,2] r)"
        " { y = MatMul(x, w) z = Gemm<transB=1>(x, t) f = Conv(i, c) xt = Transpose<perm=[1,0]>(x) r = MatMul(x, xt) }"
    )
    model = with_initializers(
        graph(body),
        w=np.ones((8, 5), np.float32),
        t=np.ones((3, 8), np.float32),
        c=np.ones((4, 2, 3, 3), np.float32),
    )
    found = [(one.k, one.n, one.channels) for one in linears(given_graph(model, target()))]
    assert found == [(8, 5, None), (8, 3, None), (18, 4, 2)]


def test_equal_sizes_are_one_line() -> None:
    model = graph("g (float[2,8] x, float[8,8] w) => (float[2,8] y) { a = MatMul(x, w) y = MatMul(a, w) }")
    with_initializers(model, w=np.ones((8, 8), np.float32))
    (one,) = linears(given_graph(model, target()))
    assert one.count == 2
    assert one.name.endswith("and 1 more")
