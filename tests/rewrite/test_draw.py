from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chipwise.errors import GraphError
from chipwise.rewrite.draw import draw_feeds, index_bound
from tests.check.graphs import graph, with_initializers

EMBEDDING = (
    "g (int64[B,S] ids, int64[B,S] attention_mask, float[9,4] table) => (float[B,S,4] y)"
    " { c = Cast<to=6>(ids) e = Gather(table, c) f = Cast<to=1>(attention_mask) a = Constant<value_ints=[-1]>()"
    " u = Unsqueeze(f, a) y = Mul(e, u) }"
)


def test_indices_stay_in_the_table() -> None:
    model = with_initializers(graph(EMBEDDING), table=np.zeros((9, 4), np.float32))
    assert index_bound(model.graph.inputs[0]) == 9
    feeds = draw_feeds(model, {"B": 2, "S": 50}, n=3)
    assert len(feeds) == 3
    for feed in feeds:
        assert feed["ids"].shape == (2, 50)
        assert feed["ids"].dtype == np.int64
        assert feed["ids"].min() >= 0
        assert feed["ids"].max() < 9


def test_a_mask_masks_its_end() -> None:
    model = with_initializers(graph(EMBEDDING), table=np.zeros((9, 4), np.float32))
    (feed,) = draw_feeds(model, {"S": 8}, n=1)
    assert feed["attention_mask"].tolist() == [[1] * 6 + [0] * 2]


def test_the_same_seed_gives_the_same_numbers() -> None:
    model = graph("g (float[N,3] x) => (float[N,3] y) { y = Relu(x) }")
    one, two = draw_feeds(model, seed=4), draw_feeds(model, seed=4)
    assert all(np.array_equal(a["x"], b["x"]) for a, b in zip(one, two, strict=True))
    assert not np.array_equal(one[0]["x"], one[1]["x"])


def test_a_symbol_has_one_size() -> None:
    model = graph("g (float[a,N] x, float[N,b] z) => (float[a,b] y) { y = MatMul(x, z) }")
    (feed,) = draw_feeds(model, n=1)
    assert feed["x"].shape[1] == feed["z"].shape[0]


@settings(max_examples=30)
@given(
    st.lists(st.integers(0, 5), max_size=4), st.sampled_from(["float", "float16", "double", "int32", "bool", "uint8"])
)
def test_static_shapes_and_types_are_kept(shape: list[int], dtype: str) -> None:
    kind = f"{dtype}[{','.join(map(str, shape))}]" if shape else dtype
    model = graph(f"g ({kind} x) => ({kind} y) {{ y = Identity(x) }}")
    (feed,) = draw_feeds(model, n=1)
    assert feed["x"].shape == tuple(shape)
    assert feed["x"].dtype == model.graph.inputs[0].dtype.numpy()


def test_what_cannot_be_drawn_is_said() -> None:
    with pytest.raises(GraphError, match="type STRING can be drawn"):
        draw_feeds(graph("g (string[2] x) => (string[2] y) { y = Identity(x) }"))
