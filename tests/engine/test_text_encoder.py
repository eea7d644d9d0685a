from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chipwise.engine.text_encoder import TextEncoder, output_of, unit
from chipwise.errors import EngineError, InputError
from tests.serve.fakes import NullEncoder

TEXTS = st.lists(st.lists(st.integers(0, 255), min_size=1, max_size=12), min_size=1, max_size=40)


@given(TEXTS)
def test_each_text_has_its_own_mean_whatever_is_beside_it(texts: list[list[int]]) -> None:
    session = NullEncoder()
    vectors = TextEncoder(session, "here").encode(texts)
    assert np.allclose(vectors, [session.table[text].mean(axis=0) for text in texts], atol=1e-6)
    assert all(rows <= 16 for rows, _ in session.runs)


@given(TEXTS)
def test_a_graph_of_one_size_is_given_that_size(texts: list[list[int]]) -> None:
    session = NullEncoder()
    vectors = TextEncoder(session, "here", rows=3, tokens=12).encode(texts)
    assert np.allclose(vectors, [session.table[text].mean(axis=0) for text in texts], atol=1e-6)
    assert set(session.runs) == {(3, 12)}


def test_what_is_no_encoder_is_told_from_one() -> None:
    assert output_of(("input_ids",), ("logits", "last_hidden_state")) == "last_hidden_state"
    assert (
        output_of(("attention_mask", "input_ids"), ("last_hidden_state", "sentence_embedding")) == "sentence_embedding"
    )
    assert output_of(("image",), ("sentence_embedding",)) is None
    assert output_of(("input_ids", "position_ids"), ("last_hidden_state",)) is None
    session = NullEncoder()
    session.output_names = ("logits",)
    with pytest.raises(InputError, match="takes input_ids, attention_mask and gives logits"):
        TextEncoder(session, "here")


def test_padding_that_counts_is_found() -> None:
    session = NullEncoder()
    session.output_names = ("sentence_embedding",)
    TextEncoder(NullEncoder(), "here").refuse_padding([1, 2, 3])
    session.run = lambda feed: {"sentence_embedding": session.table[feed["input_ids"]].mean(axis=1)}
    with pytest.raises(InputError, match="counts padding in"):
        TextEncoder(session, "here").refuse_padding([1, 2, 3])


def test_an_output_of_another_shape_is_an_error() -> None:
    session = NullEncoder()
    session.run = lambda feed: {"last_hidden_state": np.zeros((1, 6), np.float32)}
    with pytest.raises(EngineError, match="shape"):
        TextEncoder(session, "here").encode([[1], [2]])


def test_unit_vectors() -> None:
    assert np.allclose(unit(np.array([[3, 4], [0, 0]], np.float32)), [[0.6, 0.8], [0, 0]])
