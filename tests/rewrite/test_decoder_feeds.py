from __future__ import annotations

import numpy as np

from chipwise.model.decoder import GraphSpec, build_decoder
from chipwise.model.model import Model
from chipwise.rewrite.decoder_feeds import prompt_feed
from chipwise.rewrite.passes.ort_decoder import fuse_decoder
from tests.quant.small_graphs import decoder, run

PROMPT = [5, 9, 4, 7, 33, 12]


def test_every_kind_of_graph_answers_the_same(gemma: Model) -> None:
    assert gemma.config is not None
    window = gemma.config.sliding_window
    dynamic = decoder(gemma, GraphSpec("prefill", 32))
    static = decoder(gemma, GraphSpec("prefill", 32, 1, 16, 16))
    fused = fuse_decoder(build_decoder(gemma.config, gemma.weights, GraphSpec("decode", 32)), gemma.config)
    wanted = run(dynamic, prompt_feed(dynamic.graph, PROMPT, window=window))["logits"]
    assert wanted.shape == (6, gemma.config.vocab_size)
    for model in (static, fused):
        found = run(model, prompt_feed(model.graph, PROMPT))["logits"]
        assert np.allclose(found[:6], wanted, atol=1e-4)


def test_a_static_graph_is_filled_with_real_text(llama: Model) -> None:
    feed = prompt_feed(decoder(llama, GraphSpec("prefill", 32, 1, 16, 16)).graph, PROMPT)
    assert feed["input_ids"].tolist() == [[*PROMPT, *PROMPT, *PROMPT[:4]]]
    assert feed["output_rows"].tolist() == list(range(16))


def test_only_what_the_graph_takes(llama: Model) -> None:
    dynamic = decoder(llama, GraphSpec("prefill", 32))
    feed = prompt_feed(dynamic.graph, PROMPT, mask_value=-9)
    assert sorted(feed) == sorted(str(value.name) for value in dynamic.graph.inputs)
    assert feed["attention_bias"].min() == -9
