"""Names of an encoder graph's inputs, outputs and of the values worth looking at."""

from __future__ import annotations

INPUT_IDS = "input_ids"
ATTENTION_MASK = "attention_mask"
TOKEN_TYPE_IDS = "token_type_ids"
LAST_HIDDEN_STATE = "last_hidden_state"
SENTENCE_EMBEDDING = "sentence_embedding"


def weight(layer: int, name: str) -> str:
    """A layer's weight without its last part, e.g. ``attention.self.query``."""
    return f"encoder.layer.{layer}.{name}"


def layer_output(layer: int) -> str:
    """The hidden state after a layer."""
    return f"layers.{layer}.output"
