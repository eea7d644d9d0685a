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


def _feeds(files: GraphFiles, texts: list[list[int]], tokens: list[tuple[int, int]]) -> list[Feed]:
    prefill, decode = (DecoderGraph(files.files[role], threads=1) for role in ("prefill", "decode"))
    return decode_feeds(prefill, decode, texts, tokens, context=SHAPE.context)


def test_each_token_is_read_over_the_cache_of_those_before_it(files: GraphFiles) -> None:
    """What decode computes of a sample is what a session answers there."""
    long = PROMPTS[4] + PROMPTS[3]
    texts, tokens = [PROMPTS[0], PROMPTS[1], long], [(1, len(PROMPTS[1]) - 1), (0, 1), (2, SHAPE.tokens + 1)]
    found = _feeds(files, texts, tokens)
    assert [int(feed["input_ids"][0, 0]) for feed in found] == [texts[text][place] for text, place in tokens]
    assert [int(feed["positions"][0, 0]) for feed in found] == [place for _, place in tokens]
    decode = DecoderGraph(files.files["decode"], threads=1)
    assert all(set(feed) == set(decode.info.inputs) for feed in found)
    for (text, place), feed in zip(tokens, found, strict=True):
        session = files.open(n_slots=1, max_context=SHAPE.context, threads=1)
        wanted = [session.step(Batch(0, np.array([[token]]), np.array([i]))) for i, token in enumerate(texts[text])]
        assert np.allclose(decode.run(feed)["logits"][0], wanted[place].logits[0], atol=1e-4)
        session.close()
    # The cache of one step is not overwritten by the next.
    assert not np.array_equal(found[0]["past.0.key"], found[1]["past.0.key"])


def test_first_tokens_and_those_behind_the_cache_are_never_decoded(files: GraphFiles) -> None:
    text = (PROMPTS[4] * 4)[: SHAPE.context + 10]
    assert _feeds(files, [text], [(0, 0), (0, SHAPE.context)]) == []
    assert len(_feeds(files, [text], [(0, SHAPE.context - 1)])) == 1
