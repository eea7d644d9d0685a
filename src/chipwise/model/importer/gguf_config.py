"""GGUF metadata to DecoderConfig. Keys and their meaning: llama.cpp's converters and model builders."""

from __future__ import annotations

from typing import Any

import numpy as np

from chipwise.errors import ModelFormatError, UnknownArchitectureError
from chipwise.model.config import DecoderConfig, RopeConfig
from chipwise.model.importer.config_check import checked_config
from chipwise.model.importer.fields import MOST_LAYERS, Fields
from chipwise.model.importer.gguf_header import GgufHeader
from chipwise.model.importer.gguf_tensors import GgufTensors
from chipwise.model.importer.rope import longrope_positions, plain_frequencies, rope_config

KNOWN_ARCHITECTURES = ("gemma3", "llama", "phi3", "qwen2", "qwen3")

# llama.cpp holds these in its code, not in the file: every sixth layer of gemma3 sees the whole context, the
# others turn with this base; the model with 62 layers (27B) scales scores by another width.
_GEMMA3_PATTERN = 6
_GEMMA3_LOCAL_THETA = 10_000.0
_GEMMA3_27B_LAYERS = 62


def gguf_config(header: GgufHeader, raw: GgufTensors, max_context: int | None = None) -> DecoderConfig:
    """The architecture a GGUF file describes.

    Args:
        header: The file's header.
        raw: The file's tensors (scaled frequencies are stored as tensors).
        max_context: Longest context that will be used, in tokens; None for the original training's.

    Raises:
        UnknownArchitectureError: An architecture or a variant that is not supported.
        ModelFormatError: A key is missing or malformed.
    """
    arch = Fields(header.metadata, str(header.path)).text("general.architecture")
    if arch not in KNOWN_ARCHITECTURES:
        raise UnknownArchitectureError(
            f"architecture {arch!r} is not supported; supported are {', '.join(KNOWN_ARCHITECTURES)}",
            where=str(header.path),
        )
    prefix = f"{arch}."
    fields = Fields(
        {key.removeprefix(prefix): value for key, value in header.metadata.items() if key.startswith(prefix)},
        f"{header.path}: {arch}.*",
    )
    _refuse_unsupported(fields)
    common = _common(arch, fields, header)
    rope = _rope(arch, fields, raw, common, max_context)
    common |= _sliding(arch, fields, common["n_layers"], common["max_positions"])
    if arch == "gemma3":
        common |= _gemma3(fields, common, rope)
    return checked_config(DecoderConfig(arch=arch, rope=rope, **common), fields.where)


def _refuse_unsupported(fields: Fields) -> None:
    unsupported = ("expert_count", "attn_logit_softcapping", "attention.max_alibi_bias", "attention.clamp_kqv")
    for name in unsupported:
        if fields.get(name):
            raise UnknownArchitectureError(f"{name} is {fields.get(name)}, which is not supported", where=fields.where)


def _common(arch: str, fields: Fields, header: GgufHeader) -> dict[str, Any]:
    hidden, heads = fields.integer("embedding_length"), fields.integer("attention.head_count")
    embedding = header.tensors.get("token_embd.weight")
    return {
        "vocab_size": embedding.shape[0] if embedding else fields.integer("vocab_size"),
        "hidden_size": hidden,
        "ffn_size": fields.integer("feed_forward_length"),
        "n_layers": fields.integer("block_count", most=MOST_LAYERS),
        "n_heads": heads,
        "n_kv_heads": fields.integer("attention.head_count_kv", heads),
        "head_dim": fields.integer("attention.key_length", max(1, hidden // heads)),
        "max_positions": fields.integer("context_length"),
        "norm_eps": _shortest(fields.positive("attention.layer_norm_rms_epsilon")),
        "tied_embeddings": "output.weight" not in header.tensors,
        "qkv_bias": "blk.0.attn_q.bias" in header.tensors,
        "qk_norm": arch in ("qwen3", "gemma3"),
        "logit_softcap": fields.number("final_logit_softcapping", 0) or None,
    }


def _rope(arch: str, fields: Fields, raw: GgufTensors, common: dict[str, Any], max_context: int | None) -> RopeConfig:
    theta = fields.number("rope.freq_base", 10_000.0)
    dim = fields.integer("rope.dimension_count", common["head_dim"])
    max_positions = common["max_positions"]
    original = fields.integer("rope.scaling.original_context_length", max_positions)
    settings: dict[str, Any] = {
        "rope_type": {"none": "default"}.get(kind := fields.text("rope.scaling.type", "none"), kind),
        "factor": fields.get("rope.scaling.factor"),
        "attention_factor": fields.get("rope.scaling.attn_factor") if arch == "phi3" else None,
    }
    if "rope_factors_long.weight" in raw.infos:
        settings |= {
            "rope_type": "longrope",
            "factor": None,
            "long_factor": _vector(raw, "rope_factors_long.weight"),
            "short_factor": _vector(raw, "rope_factors_short.weight"),
        }
        common["max_positions"] = longrope_positions(max_positions, original, max_context)
    if "rope_freqs.weight" in raw.infos:
        factors = np.array(_vector(raw, "rope_freqs.weight"), np.float32)
        if len(factors) != dim // 2 or not (factors > 0).all():
            raise ModelFormatError(
                f"rope_freqs.weight has {len(factors)} values, expected {dim // 2} above 0",
                where=raw.where,
                remedy="download the model again",
            )
        return RopeConfig(theta, dim, tuple((plain_frequencies(theta, dim) / factors).tolist()))
    return rope_config(
        Fields(settings, f"{fields.where} rope.scaling"),
        theta=theta,
        dim=dim,
        max_positions=max_positions,
        original_positions=original,
        context=max_context or original,
    )


def _shortest(value: float) -> float:
    """The shortest decimal of a float32: the file's 9.99999974e-06 was written as 1e-05."""
    return float(str(np.float32(value)))


def _vector(raw: GgufTensors, name: str) -> list[float]:
    return raw.rows(name, 0, raw.infos[name].shape[0]).ravel().tolist() if name in raw.infos else []


def _sliding(arch: str, fields: Fields, layers: int, max_positions: int) -> dict[str, Any]:
    # qwen's checkpoints name a window that they do not use; phi3 writes 0 for none
    if arch.startswith("qwen") or not fields.get("attention.sliding_window"):
        return {}
    window = fields.integer("attention.sliding_window")
    # gemma3's sliding layers turn at another speed, so they stay apart even where the window binds nothing
    if arch != "gemma3" and window >= max_positions:
        return {}
    if arch == "gemma3":
        slides = tuple((layer + 1) % _GEMMA3_PATTERN != 0 for layer in range(layers))
    else:
        slides = (True,) * layers
    return {"sliding_window": window, "sliding_layers": slides}


def _gemma3(fields: Fields, common: dict[str, Any], rope: RopeConfig) -> dict[str, Any]:
    width = common["hidden_size"] / common["n_heads"] if common["n_layers"] == _GEMMA3_27B_LAYERS else None
    return {
        "rope_local": RopeConfig(fields.number("rope.freq_base_swa", _GEMMA3_LOCAL_THETA), rope.dim),
        "post_norms": True,
        "embed_scale": float(np.sqrt(common["hidden_size"])),
        "attn_scale": float((width or common["head_dim"]) ** -0.5),
        "activation": "gelu_tanh",
    }
