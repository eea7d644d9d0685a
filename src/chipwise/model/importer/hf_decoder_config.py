"""config.json of a decoder to DecoderConfig, as transformers reads it (version 4's field names and 5's)."""

from __future__ import annotations

from chipwise.errors import ModelFormatError, UnknownArchitectureError
from chipwise.model.config import Activation, DecoderConfig, RopeConfig
from chipwise.model.importer.config_check import checked_config
from chipwise.model.importer.fields import MOST_LAYERS, Fields
from chipwise.model.importer.hf_defaults import DECODER_DEFAULTS
from chipwise.model.importer.hf_refusals import refuse_unsupported
from chipwise.model.importer.rope import longrope_positions, rope_config

ACTIVATIONS: dict[str, Activation] = {
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
}
_FULL, _SLIDING = "full_attention", "sliding_attention"


def decoder_config(fields: Fields, model_type: str, max_context: int | None = None) -> DecoderConfig:
    """The architecture a config.json describes.

    Args:
        fields: The config (of a multimodal model: its text_config).
        model_type: A key of ``DECODER_DEFAULTS``.
        max_context: Longest context that will be used, in tokens; None for the original training's.

    Raises:
        UnknownArchitectureError: A variant that is not supported.
        ModelFormatError: A setting is missing or malformed.
    """
    fields = Fields(fields.values, fields.where, DECODER_DEFAULTS[model_type])
    refuse_unsupported(fields)
    arch = model_type.removesuffix("_text")
    hidden, heads = fields.integer("hidden_size"), fields.integer("num_attention_heads")
    layers, max_positions = (
        fields.integer("num_hidden_layers", most=MOST_LAYERS),
        fields.integer("max_position_embeddings"),
    )
    head_dim = fields.integer("head_dim", max(1, hidden // heads))
    window, slides = _sliding(fields, arch, layers, max_positions)
    rope, rope_local = _ropes(fields, arch, head_dim, max_positions, max_context)
    scaled_context = _positions(fields, rope, max_positions, max_context)
    config = DecoderConfig(
        arch=arch,
        vocab_size=fields.integer("vocab_size"),
        hidden_size=hidden,
        ffn_size=fields.integer("intermediate_size"),
        n_layers=layers,
        n_heads=heads,
        n_kv_heads=fields.integer("num_key_value_heads", heads),
        head_dim=head_dim,
        max_positions=scaled_context,
        norm_eps=fields.positive("rms_norm_eps"),
        rope=rope,
        rope_local=rope_local,
        sliding_window=window,
        sliding_layers=slides,
        tied_embeddings=fields.flag("tie_word_embeddings"),
        qkv_bias=arch == "qwen2",
        qk_norm=arch in ("qwen3", "gemma3"),
        post_norms=arch == "gemma3",
        embed_scale=hidden**0.5 if arch == "gemma3" else 1.0,
        attn_scale=fields.number("query_pre_attn_scalar") ** -0.5 if arch == "gemma3" else None,
        activation=activation(fields, "hidden_activation" if arch == "gemma3" else "hidden_act"),
        logit_softcap=fields.number("final_logit_softcapping", 0) or None,
        norm_plus_one=arch == "gemma3",
    )
    return checked_config(config, fields.where)


def activation(fields: Fields, name: str) -> Activation:
    """The activation a config.json names.

    Raises:
        UnknownArchitectureError: One that is not supported.
    """
    found = fields.text(name)
    if found not in ACTIVATIONS:
        raise UnknownArchitectureError(
            f"{name} is {found!r}; supported are {', '.join(ACTIVATIONS)}", where=fields.where
        )
    return ACTIVATIONS[found]


def _sliding(fields: Fields, arch: str, layers: int, max_positions: int) -> tuple[int | None, tuple[bool, ...]]:
    """The window and which layers it binds; none where it is as long as the context.

    gemma3's sliding layers turn at another speed, so they stay apart even where the window binds nothing.
    """
    if "sliding_window" not in fields or (arch.startswith("qwen") and not fields.flag("use_sliding_window")):
        return None, ()
    window = fields.integer("sliding_window")
    slides = _sliding_layers(fields, arch, layers)
    matters = any(slides) and (window < max_positions or arch == "gemma3")
    return (window, slides) if matters else (None, ())


def _sliding_layers(fields: Fields, arch: str, layers: int) -> tuple[bool, ...]:
    types = fields.get("layer_types")
    if types is not None:
        if not isinstance(types, list) or len(types) != layers or any(kind not in (_FULL, _SLIDING) for kind in types):
            raise ModelFormatError(
                f"layer_types is not {layers} of {_FULL} and {_SLIDING}",
                where=fields.where,
                remedy="this kind of layer is not supported",
            )
        return tuple(kind == _SLIDING for kind in types)
    if arch == "gemma3":
        pattern = fields.integer("sliding_window_pattern")
        return tuple((layer + 1) % pattern != 0 for layer in range(layers))
    if arch.startswith("qwen"):
        return tuple(layer >= fields.number("max_window_layers") for layer in range(layers))
    return (arch == "phi3",) * layers


def _ropes(
    fields: Fields, arch: str, head_dim: int, max_positions: int, max_context: int | None
) -> tuple[RopeConfig, RopeConfig | None]:
    """Rotary embeddings of full and of sliding layers (the latter only for gemma3)."""
    # version 5 has rope_parameters, for gemma3 one group a layer type; version 4 has rope_scaling and rope_theta
    settings = fields.section("rope_parameters" if "rope_parameters" in fields else "rope_scaling")
    full = settings.section(_FULL) if _FULL in settings else settings
    local = settings.section(_SLIDING)
    theta = full.number("rope_theta", fields.number("rope_theta", 10_000.0))
    turned = full.number("partial_rotary_factor", fields.number("partial_rotary_factor", 1.0))
    original = fields.integer("original_max_position_embeddings", max_positions) if arch == "phi3" else None
    rope = rope_config(
        full,
        theta=theta,
        dim=int(head_dim * turned),
        max_positions=max_positions,
        original_positions=original,
        context=max_context or original or max_positions,
    )
    if arch != "gemma3":
        return rope, None
    if local.text("rope_type", "default") != "default":
        raise UnknownArchitectureError("scaled frequencies of sliding layers are not supported", where=local.where)
    return rope, RopeConfig(local.number("rope_theta", fields.number("rope_local_base_freq")), head_dim)


def _positions(fields: Fields, rope: RopeConfig, max_positions: int, max_context: int | None) -> int:
    settings = fields.section("rope_parameters" if "rope_parameters" in fields else "rope_scaling")
    if settings.get("long_factor") is None or rope.inv_freq is None:
        return max_positions
    original = fields.integer("original_max_position_embeddings", max_positions)
    return longrope_positions(max_positions, original, max_context)
