from __future__ import annotations

import numpy as np
import pytest

from chipwise.build.decode_samples import decode_feeds
from chipwise.build.graph_files import GraphFiles
from chipwise.engine import Batch
from chipwise.engine.onnxruntime.decoder_graph import DecoderGraph
from chipwise.model.model import Model
from chipwise.rewrite.pass_ import Feed
from tests.build.test_portable_graphs import PROMPTS, SHAPE, _graphs


@pytest.fixture(scope="module")
def files(even: Model, tmp_path_factory: pytest.TempPathFactory) -> GraphFiles:
    return _graphs(even, tmp_path_factory.mktemp("samples")).reference()


def _feeds(files: GraphFiles, texts: list[list[int]], at_most: int = 100) -> list[Feed]:
    prefill, decode = (DecoderGraph(files.files[role], threads=1) for role in ("prefill", "decode"))
    return decode_feeds(prefill, decode, texts, context=SHAPE.context, at_most=at_most)


def test_each_text_ends_in_two_steps_over_its_own_cache(files: GraphFiles) -> None:
    """What decode computes of a sample is what a session answers there."""
    found = _feeds(files, PROMPTS[:2])
    assert [int(feed["input_ids"][0, 0]) for feed in found] == [*PROMPTS[0][-2:], *PROMPTS[1][-2:]]
    decode = DecoderGraph(files.files["decode"], threads=1)
    assert all(set(feed) == set(decode.info.inputs) for feed in found)
    session = files.open(n_slots=1, max_context=SHAPE.context, threads=1)
    for text, feed in zip(PROMPTS, found[1::2], strict=False):
        wanted = session.step(Batch(0, np.array([text]), np.array([0]))).logits[0]
        assert np.allclose(decode.run(feed)["logits"][0], wanted, atol=1e-4)
    session.close()
    # The cache of one step is not overwritten by the next.
    assert not np.array_equal(found[0]["past.0.key"], found[1]["past.0.key"])
    assert not np.array_equal(found[1]["past.0.key"], found[3]["past.0.key"])


def test_texts_longer_than_prefill_and_than_the_cache(files: GraphFiles) -> None:
    long = (PROMPTS[4] * 4)[: SHAPE.context + 10]
    found = _feeds(files, [PROMPTS[4] + PROMPTS[3], long])
    read = PROMPTS[4] + PROMPTS[3]
    assert [int(feed["input_ids"][0, 0]) for feed in found[:2]] == read[SHAPE.tokens : SHAPE.tokens + 2]
    assert [int(feed["positions"][0, 0]) for feed in found] == [32, 33, 32, 33]


def test_texts_of_one_token_say_nothing_and_enough_is_enough(files: GraphFiles) -> None:
    assert _feeds(files, [[5]]) == []
    two = _feeds(files, [[5], [6, 7], [8, 9, 10], [11, 12, 13]])
    assert [int(feed["input_ids"][0, 0]) for feed in two] == [7, 9, 10, 12, 13]
    assert len(_feeds(files, PROMPTS, at_most=3)) == 3
