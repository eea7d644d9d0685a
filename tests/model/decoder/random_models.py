"""Small models of every architecture as Hugging Face folders, the same on every machine."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from chipwise.model.config import DecoderConfig
from chipwise.model.importer.canonical_names import decoder_shapes
from chipwise.model.importer.fields import Fields
from chipwise.model.importer.hf_decoder_config import decoder_config

VOCAB = 61
WINDOW = 7
_COMMON: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 64,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "rope_theta": 10000.0,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "hidden_act": "silu",
    "torch_dtype": "float32",
}
_LLAMA3_SCALING = {
    "rope_type": "llama3",
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 24,
}
_LONGROPE = {
    "type": "longrope",
    "short_factor": [1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7],
    "long_factor": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0],
}
_GEMMA3: dict[str, Any] = {
    "model_type": "gemma3_text",
    "architectures": ["Gemma3ForCausalLM"],
    "head_dim": 32,
    "num_hidden_layers": 3,
    "tie_word_embeddings": True,
    "hidden_activation": "gelu_pytorch_tanh",
    "query_pre_attn_scalar": 24,
    "sliding_window": WINDOW,
    "sliding_window_pattern": 2,
    "rope_theta": 1000000.0,
    "rope_local_base_freq": 10000.0,
    "rope_scaling": {"rope_type": "linear", "factor": 8.0},
}

# What each adds to the common settings. Every option a graph writer has to heed occurs: grouped, multi and single key
# heads, head sizes that are not hidden_size / heads, tied and untied output, biases, norms, windows, scalings.
CASES: dict[str, dict[str, Any]] = {
    "llama": {"model_type": "llama", "architectures": ["LlamaForCausalLM"]},
    "llama_mha_tied": {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "num_key_value_heads": 4,
        "head_dim": 24,
        "tie_word_embeddings": True,
    },
    "llama_mqa": {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "num_key_value_heads": 1,
        "tie_word_embeddings": True,
    },
    "llama3": {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "rope_theta": 500000.0,
        "rope_scaling": _LLAMA3_SCALING,
    },
    "qwen2": {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "tie_word_embeddings": True},
    "qwen2_sliding": {
        "model_type": "qwen2",
        "architectures": ["Qwen2ForCausalLM"],
        "use_sliding_window": True,
        "sliding_window": WINDOW,
        "max_window_layers": 1,
    },
    "qwen3": {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "head_dim": 24},
    "gemma3": _GEMMA3,
    "gemma3_softcap": {**_GEMMA3, "num_key_value_heads": 1, "final_logit_softcapping": 4.0},
    "phi3": {
        "model_type": "phi3",
        "architectures": ["Phi3ForCausalLM"],
        "original_max_position_embeddings": 64,
        "sliding_window": WINDOW,
    },
    "phi3_partial": {
        "model_type": "phi3",
        "architectures": ["Phi3ForCausalLM"],
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "partial_rotary_factor": 0.5,
        "original_max_position_embeddings": 48,
        "rope_scaling": _LONGROPE,
        "tie_word_embeddings": True,
    },
}


def tokens(length: int = 41) -> list[int]:
    """A sequence longer than every window and every first context but the last."""
    return np.random.RandomState(7).randint(3, VOCAB, length).tolist()


def settings(case: str) -> dict[str, Any]:
    """The config.json of a case."""
    return {**_COMMON, **CASES[case]}


def case_config(case: str) -> DecoderConfig:
    """The architecture of a case, as the importer reads it."""
    return decoder_config(Fields(settings(case), "config.json"), settings(case)["model_type"])


def write_folder(case: str, folder: Path) -> Path:
    """A Hugging Face folder whose weights depend on the case and their names alone."""
    folder.mkdir(parents=True, exist_ok=True)
    config = case_config(case)
    weights = {name: _draw(case, name, shape) for name, shape in decoder_shapes(config).items()}
    if config.norm_plus_one:
        weights = {n: w - np.float32(1) if n.endswith("norm.weight") else w for n, w in weights.items()}
    if config.arch == "phi3":
        weights = _packed(weights, config.n_layers)
    (folder / "config.json").write_text(json.dumps(settings(case)))
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def _draw(case: str, name: str, shape: tuple[int, ...]) -> np.ndarray:
    random = np.random.RandomState(zlib.crc32(f"{case} {name}".encode()))
    drawn = random.standard_normal(shape)
    if name.endswith("norm.weight"):
        return (1 + 0.2 * drawn).astype(np.float32)
    if name.endswith("bias"):
        return (0.3 * drawn).astype(np.float32)
    # Twice the usual scale: attention then looks at few tokens, so a wrong mask or position shows.
    return (drawn * (2.0 if "embed" not in name else 1.0) / np.sqrt(shape[-1])).astype(np.float32)


def _packed(weights: dict[str, np.ndarray], layers: int) -> dict[str, np.ndarray]:
    """phi3 keeps q, k, v in one matrix, and gate and up in another."""
    weights = dict(weights)
    for layer in range(layers):
        for packed, parts in (("self_attn.qkv_proj", "qkv"), ("mlp.gate_up_proj", ("gate", "up"))):
            block = packed.split(".")[0]
            rows = [weights.pop(f"model.layers.{layer}.{block}.{part}_proj.weight") for part in parts]
            weights[f"model.layers.{layer}.{packed}.weight"] = np.concatenate(rows)
    return weights
