"""Where each canonical weight lies in a Hugging Face folder."""

from __future__ import annotations

from chipwise.model.config import DecoderConfig, EncoderConfig
from chipwise.model.importer.canonical_names import decoder_shapes, encoder_shapes
from chipwise.model.importer.place_check import checked_weights, refuse_strangers
from chipwise.model.importer.placed_weights import Place, PlacedWeights
from chipwise.model.importer.raw_tensors import RawTensors

# The text model inside a multimodal one, old layout and new.
_TEXT_PREFIXES = ("model.language_model.", "language_model.model.")
_HEAD = "lm_head.weight"
_LAYER = r"(language_model\.)?model\.(language_model\.)?layers\.\d+\.(?!self_attn\.rotary_emb\.)"


def decoder_weights(raw: RawTensors, config: DecoderConfig) -> PlacedWeights:
    """The weights of a decoder by canonical name.

    Raises:
        ModelFormatError: Weights are missing, of another shape, or of no known use.
    """
    shapes = decoder_shapes(config)
    prefix = _text_prefix(raw)
    places = {name: _decoder_place(name, config, prefix, raw) for name in shapes}
    used = {place.tensor for place in places.values()}
    refuse_strangers(raw, raw.infos, used, _LAYER)
    return checked_weights(raw, places, shapes)


def encoder_weights(raw: RawTensors, config: EncoderConfig) -> PlacedWeights:
    """The weights of an encoder by canonical name, without the ``bert.`` that some files put in front.

    Raises:
        ModelFormatError: Weights are missing or of another shape.
    """
    shapes = encoder_shapes(config)
    prefix = "bert." if any(name.startswith("bert.") for name in raw.infos) else ""
    places = {name: Place(_old_norm_name(prefix + name, raw)) for name in shapes}
    pooler = [f"pooler.dense.{kind}" for kind in ("weight", "bias") if f"{prefix}pooler.dense.{kind}" in raw.infos]
    return checked_weights(raw, places | {name: Place(prefix + name) for name in pooler}, shapes)


def _text_prefix(raw: RawTensors) -> str:
    for prefix in _TEXT_PREFIXES:
        if any(name.startswith(prefix) for name in raw.infos):
            return prefix
    return "model." if any(name.startswith("model.") for name in raw.infos) else ""


def _decoder_place(name: str, config: DecoderConfig, prefix: str, raw: RawTensors) -> Place:
    if name == _HEAD:
        inside = f"language_model.{_HEAD}"
        return Place(inside if inside in raw.infos else _HEAD)
    stored = prefix + name.removeprefix("model.")
    if stored not in raw.infos and (packed := _packed(stored, config)):
        return packed
    # norms of gemma3 are stored less one, so that weight decay pulls them to one
    return Place(stored, add=1.0 if config.norm_plus_one and name.endswith("norm.weight") else 0.0)


def _packed(stored: str, config: DecoderConfig) -> Place | None:
    """The place in phi3's packed projections."""
    queries, keys = config.n_heads * config.head_dim, config.n_kv_heads * config.head_dim
    parts = {
        "q_proj": ("qkv_proj", 0, queries),
        "k_proj": ("qkv_proj", queries, keys),
        "v_proj": ("qkv_proj", queries + keys, keys),
        "gate_proj": ("gate_up_proj", 0, config.ffn_size),
        "up_proj": ("gate_up_proj", config.ffn_size, config.ffn_size),
    }
    for part, (packed, start, rows) in parts.items():
        if config.arch == "phi3" and stored.endswith(f".{part}.weight"):
            return Place(stored.replace(f".{part}.", f".{packed}."), start, rows)
    return None


def _old_norm_name(stored: str, raw: RawTensors) -> str:
    """The first BERT checkpoints call a norm's weight gamma and its bias beta."""
    old = stored.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
    return old if stored not in raw.infos and old in raw.infos else stored
