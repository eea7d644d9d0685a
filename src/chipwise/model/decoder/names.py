"""Names of weights, inputs, outputs and of the values worth looking at, in one place."""

from __future__ import annotations

DOMAIN = "chipwise"
RMS_NORM = "RmsNorm"
ATTENTION = "Attention"

INPUT_IDS = "input_ids"
POSITIONS = "positions"
OUTPUT_ROWS = "output_rows"
ATTENTION_BIAS = "attention_bias"
ATTENTION_BIAS_LOCAL = "attention_bias_local"
LOGITS = "logits"

EMBEDDING = "model.embed_tokens.weight"
FINAL_NORM = "model.norm.weight"
LM_HEAD = "lm_head.weight"


def past(layer: int, part: str) -> str:
    """The KV cache input of a layer; part is ``key`` or ``value``."""
    return f"past.{layer}.{part}"


def present(layer: int, part: str) -> str:
    """The KV output of a layer: the new tokens only (portable graphs) or the whole buffer (fused graphs)."""
    return f"present.{layer}.{part}"


def weight(layer: int, name: str) -> str:
    """A layer's weight, e.g. ``self_attn.q_proj.weight``."""
    return f"model.layers.{layer}.{name}"


EMBEDDED = "embedded"
"""The residual stream before the first layer."""

ROPE_COS = "rope.cos"
ROPE_SIN = "rope.sin"


def projection(layer: int, part: str) -> str:
    """What attention projects a normed token to; part is ``query``, ``key`` or ``value``."""
    return f"layers.{layer}.{part}"


def attention_heads(layer: int) -> str:
    """The mixed values of all heads, before their output projection."""
    return f"layers.{layer}.heads"


def layer_middle(layer: int) -> str:
    """The residual stream between attention and feed-forward."""
    return f"layers.{layer}.middle"


def layer_output(layer: int) -> str:
    """The residual stream after a layer."""
    return f"layers.{layer}.output"


def attention_output(layer: int) -> str:
    """What attention adds to the residual stream."""
    return f"layers.{layer}.attn_out"


def mlp_output(layer: int) -> str:
    """What the feed-forward part adds to the residual stream."""
    return f"layers.{layer}.mlp_out"
