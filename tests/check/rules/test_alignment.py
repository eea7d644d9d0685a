from __future__ import annotations

from dataclasses import replace

import numpy as np

from chipwise.check.rules.alignment import alignment
from chipwise.target.alignment import Alignment
from tests.check.graphs import DECODER, given_decoder, given_graph, graph, q, target, with_initializers

PACKED = target(alignments=(Alignment("packed_weights", q(32, "B"), "int4"),))
ACTIVATIONS = target(alignments=(Alignment("activations", q(16, "B")),))
ODD = replace(DECODER, hidden_size=72, ffn_size=128)


def test_packed_int4_rows() -> None:
    (one,) = alignment(given_decoder(PACKED, "w4a16", ODD))
    assert (one.severity, one.limit) == ("warning", "a multiple of 32 B")
    assert one.measured == "36 B in int4"
    assert "q_proj" in one.where
    assert list(alignment(given_decoder(PACKED, "w4a16", replace(DECODER, ffn_size=128)))) == []


def test_packing_concerns_four_bits_only() -> None:
    assert list(alignment(given_decoder(PACKED, "w8a8", ODD))) == []
    assert list(alignment(given_decoder(PACKED, None, ODD))) == []


def test_activation_bytes_follow_the_recipe() -> None:
    odd = replace(DECODER, hidden_size=72, ffn_size=128)
    (one,) = alignment(given_decoder(ACTIVATIONS, "w8a8", odd))
    assert one.measured == "72 B in int8"
    assert list(alignment(given_decoder(ACTIVATIONS, "fp16", odd))) == []


def test_a_convolutions_channels_count_and_not_its_window() -> None:
    model = graph("g (float[1,16,6,6] i, float[8,16,3,3] c) => (float[1,8,4,4] y) { y = Conv(i, c) }")
    with_initializers(model, c=np.ones((8, 16, 3, 3), np.float32))
    on = target(
        alignments=(Alignment("activations", q(16, "B")), Alignment("matmul_k", q(32)), Alignment("matmul_n", q(32)))
    )
    assert list(alignment(given_graph(model, on, "w8a8"))) == []


def test_channel_counts() -> None:
    on = target(alignments=(Alignment("scale_channels", q(64)), Alignment("matmul_n", q(64), "int4")))
    found = list(alignment(given_decoder(on, "w4a16")))
    assert [(f.severity, f.measured) for f in found] == [
        ("warning", "32, 160, 1000 channels in int4"),
        ("info", "32, 160, 1000 channels in int4"),
    ]
