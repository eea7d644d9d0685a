from __future__ import annotations

from pathlib import Path

import pytest

from chipwise.engine.decoder_info import DecoderInfo, Shapes
from chipwise.errors import EngineError

INPUTS: Shapes = {
    "input_ids": (1, 1),
    "output_rows": (1,),
    "past.0.key": (1, 2, "context", 8),
    "past.0.value": (1, 2, "context", 8),
}
OUTPUTS: Shapes = {"logits": (1, 61), "present.0.key": (1, 2, 1, 8), "present.0.value": (1, 2, 1, 8)}


def test_what_it_says() -> None:
    info = DecoderInfo(Path("d"), INPUTS, OUTPUTS)
    assert (info.vocab_size, info.layers, info.kv_shape()) == (61, 1, (1, 2, "context", 8))
    info.require_context(1 << 30)


@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [
        ({"positions": (1, 1)}, OUTPUTS, "d: not a decoder graph: it has no input_ids"),
        (INPUTS, {"scores": (1, 61)}, "it has no logits"),
        (INPUTS, {"logits": (1, "vocab")}, "a dimension of logits is 'vocab', not a number"),
    ],
)
def test_what_is_no_decoder(inputs: Shapes, outputs: Shapes, message: str) -> None:
    with pytest.raises(EngineError, match=message):
        DecoderInfo(Path("d"), inputs, outputs)


def test_a_graph_without_a_cache_and_one_that_ends_too_soon() -> None:
    bare = DecoderInfo(Path("d"), {"input_ids": (1, 1), "output_rows": (1,)}, OUTPUTS, {"chipwise.context": "48"})
    with pytest.raises(EngineError, match="it has no KV cache"):
        bare.kv_shape()
    bare.require_context(48)
    with pytest.raises(EngineError, match="the graph names 48 positions, not 49"):
        bare.require_context(49)
