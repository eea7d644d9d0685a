from __future__ import annotations

from dataclasses import replace

import numpy as np

from chipwise.check.memory import memory_need
from tests.check.graphs import DECODER, given_decoder, given_graph, graph, target, with_initializers

BODY = 64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 160


def test_a_decoder_by_its_recipe() -> None:
    need = memory_need(given_decoder(target(), "w4a16_channel", max_context=256, n_streams=3))
    tables = 1000 * 64
    assert need.weights_bytes == (2 * BODY * 4 + tables * 8) // 8
    assert need.kv_bytes == 3 * 2 * 2 * 2 * 16 * 256 * 2
    assert need.activations_bytes > 0
    assert need.total_bytes == need.weights_bytes + need.kv_bytes + need.activations_bytes


def test_kv_has_four_bytes_under_onnxruntime() -> None:
    small = memory_need(given_decoder(target(), max_context=64))
    large = memory_need(given_decoder(target(engine="onnxruntime", kind="cpu"), max_context=64))
    assert large.kv_bytes == 2 * small.kv_bytes


def test_an_output_layer_of_its_own_counts() -> None:
    tied = memory_need(given_decoder(target(), "w8a8"))
    loose = memory_need(given_decoder(target(), "w8a8", replace(DECODER, tied_embeddings=False)))
    assert loose.weights_bytes - tied.weights_bytes == 1000 * 64


def test_the_context_nobody_asked_for_is_the_models() -> None:
    assert memory_need(given_decoder(target())).kv_bytes == DECODER.kv_bytes(512, 2)


def test_a_graph_counts_what_is_alive() -> None:
    model = graph(
        "g (float[8,64] x, float[64,64] w) => (float[8,64] y) { a = MatMul(x, w) b = Relu(a) c = Neg(b) y = Add(b, c) }"
    )
    with_initializers(model, w=np.zeros((64, 64), np.float32))
    need = memory_need(given_graph(model, target(engine="onnxruntime", kind="cpu")))
    assert need.weights_bytes == 64 * 64 * 4
    assert need.activations_bytes == 3 * 8 * 64 * 4
    assert memory_need(given_graph(model, target(), "w8a8")).weights_bytes == 64 * 64


def test_a_graph_without_recipe_counts_as_stored() -> None:
    model = graph("g (float16[64,64] w, float16[2,64] x) => (float16[2,64] y) { y = MatMul(x, w) }")
    with_initializers(model, w=np.zeros((64, 64), np.float16))
    assert memory_need(given_graph(model, target())).weights_bytes == 64 * 64 * 2
