"""Where each canonical weight lies in a GGUF file. Names: ``gguf.constants`` and llama.cpp's converters."""

from __future__ import annotations

from chipwise.model.config import DecoderConfig
from chipwise.model.importer.canonical_names import decoder_shapes
from chipwise.model.importer.gguf_tensors import GgufTensors
from chipwise.model.importer.place_check import checked_weights, refuse_strangers
from chipwise.model.importer.placed_weights import Place, PlacedWeights

_TOP = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
_LAYER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
# gemma3 has four norms a layer, and Hugging Face's second name means another of them
_LAYER_GEMMA3 = {
    **_LAYER,
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}


def gguf_weights(raw: GgufTensors, config: DecoderConfig) -> PlacedWeights:
    """The weights of a GGUF file by canonical name.

    Raises:
        ModelFormatError: Weights are missing, of another shape, or of no known use.
    """
    shapes = decoder_shapes(config)
    places = {name: _place(name, config, raw) for name in shapes}
    used = {place.tensor for place in places.values()}
    refuse_strangers(raw, raw.infos, used, r"blk\.\d+\.(?!attn_rot_embd)")
    return checked_weights(raw, places, shapes)


def _place(name: str, config: DecoderConfig, raw: GgufTensors) -> Place:
    if name in _TOP:
        return Place(_TOP[name])
    _, _, layer, rest = name.split(".", 3)
    part, _, kind = rest.rpartition(".")
    block = f"blk.{layer}"
    if f"{block}.attn_qkv.{kind}" in raw.infos and (packed := _packed_qkv(part, config)):
        return Place(f"{block}.attn_qkv.{kind}", *packed)
    if part in ("mlp.gate_proj", "mlp.up_proj") and f"{block}.ffn_gate.weight" not in raw.infos:
        return Place(f"{block}.ffn_up.{kind}", config.ffn_size * (part == "mlp.up_proj"), config.ffn_size)
    names = _LAYER_GEMMA3 if config.arch == "gemma3" else _LAYER
    heads = {"self_attn.q_proj": config.n_heads, "self_attn.k_proj": config.n_kv_heads}.get(part)
    interleaved = heads if config.arch == "llama" else None
    return Place(f"{block}.{names[part]}.{kind}", interleaved_heads=interleaved)


def _packed_qkv(part: str, config: DecoderConfig) -> tuple[int, int] | None:
    """First row and number of rows of q, k or v in a packed projection."""
    queries, keys = config.n_heads * config.head_dim, config.n_kv_heads * config.head_dim
    return {
        "self_attn.q_proj": (0, queries),
        "self_attn.k_proj": (queries, keys),
        "self_attn.v_proj": (queries + keys, keys),
    }.get(part)
