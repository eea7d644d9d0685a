"""Small models with random weights, written as Hugging Face folders and GGUF files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file

from chipwise.model.importer.canonical_names import decoder_shapes
from chipwise.model.importer.fields import Fields
from chipwise.model.importer.hf_decoder_config import decoder_config

Arrays = dict[str, npt.NDArray[Any]]

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": 40,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": True,
}
QWEN2 = {**LLAMA, "model_type": "qwen2"}
QWEN3 = {**LLAMA, "model_type": "qwen3", "head_dim": 16}
GEMMA3 = {
    **LLAMA,
    "model_type": "gemma3_text",
    "head_dim": 16,
    "hidden_activation": "gelu_pytorch_tanh",
    "query_pre_attn_scalar": 16,
    "rope_theta": 1_000_000.0,
    "sliding_window": 8,
}
PHI3 = {**LLAMA, "model_type": "phi3", "tie_word_embeddings": False, "original_max_position_embeddings": 128}
BERT: dict[str, Any] = {
    "model_type": "bert",
    "vocab_size": 40,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 16,
}
DECODERS = [LLAMA, QWEN2, QWEN3, GEMMA3, PHI3]


def random_weights(shapes: dict[str, tuple[int, ...]], seed: int = 0) -> Arrays:
    """A normal float32 array for every shape."""
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()}


def decoder_arrays(config: dict[str, Any], seed: int = 0) -> Arrays:
    """Random weights of a decoder by canonical name."""
    return random_weights(decoder_shapes(decoder_config(Fields(config, "test"), config["model_type"])), seed)


def write_hf(folder: Path, config: dict[str, Any], weights: Arrays, shards: int = 1) -> Path:
    """A Hugging Face folder; with several shards an index names their tensors."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    if shards == 1:
        save_file(weights, folder / "model.safetensors")
        return folder
    weight_map: dict[str, str] = {}
    for shard in range(shards):
        file = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        part = dict(list(weights.items())[shard::shards])
        save_file(part, folder / file)
        weight_map |= dict.fromkeys(part, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}), "utf-8")
    return folder


def llama_permuted(weight: npt.NDArray[Any], heads: int) -> npt.NDArray[Any]:
    """Rows of q or k as llama.cpp's converter writes them for llama: the two halves of a head interleaved."""
    halves = weight.reshape(heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:])
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(weight.shape))


GGUF_LAYER_NAMES = {
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


def gguf_arrays(config: dict[str, Any], weights: Arrays) -> Arrays:
    """The arrays of a decoder as llama.cpp's converter names, permutes and packs them."""
    top = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
    names = dict(GGUF_LAYER_NAMES)
    if config["model_type"] == "gemma3_text":
        names |= {
            "post_attention_layernorm": "post_attention_norm",
            "pre_feedforward_layernorm": "ffn_norm",
            "post_feedforward_layernorm": "post_ffw_norm",
        }
    heads = {"self_attn.q_proj": config["num_attention_heads"], "self_attn.k_proj": config["num_key_value_heads"]}
    out: Arrays = {}
    for name, array in weights.items():
        stem, kind = name.rsplit(".", 1)
        if stem in top:
            out[f"{top[stem]}.{kind}"] = array
            continue
        _, _, layer, part = stem.split(".", 3)
        if config["model_type"] == "llama" and part in heads:
            array = llama_permuted(array, heads[part])
        out[f"blk.{layer}.{names[part]}.{kind}"] = array
    return _packed(out, config["num_hidden_layers"]) if config["model_type"] == "phi3" else out


def _packed(arrays: Arrays, layers: int) -> Arrays:
    """phi3's converter keeps the packed projections of the checkpoint."""
    for layer in range(layers):
        block = f"blk.{layer}"
        qkv = [arrays.pop(f"{block}.attn_{part}.weight") for part in "qkv"]
        arrays[f"{block}.attn_qkv.weight"] = np.concatenate(qkv)
        gate_up = [arrays.pop(f"{block}.ffn_{part}.weight") for part in ("gate", "up")]
        arrays[f"{block}.ffn_up.weight"] = np.concatenate(gate_up)
    return arrays


def gguf_metadata(config: dict[str, Any]) -> dict[str, Any]:
    """What llama.cpp's converter writes of a config.json, by full key."""
    arch = config["model_type"].removesuffix("_text")
    head_dim = config.get("head_dim", config["hidden_size"] // config["num_attention_heads"])
    metadata = {
        "block_count": config["num_hidden_layers"],
        "context_length": config["max_position_embeddings"],
        "embedding_length": config["hidden_size"],
        "feed_forward_length": config["intermediate_size"],
        "attention.head_count": config["num_attention_heads"],
        "attention.head_count_kv": config["num_key_value_heads"],
        "attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
        "rope.freq_base": config["rope_theta"],
    }
    if "head_dim" in config:
        metadata |= {"attention.key_length": head_dim, "attention.value_length": head_dim}
    if arch == "llama":
        metadata["rope.dimension_count"] = head_dim
    if arch == "phi3":
        metadata["rope.dimension_count"] = head_dim
        metadata["rope.scaling.original_context_length"] = config["original_max_position_embeddings"]
        metadata["attention.sliding_window"] = config.get("sliding_window", 0)
    if arch == "gemma3":
        metadata["attention.sliding_window"] = config["sliding_window"]
    return {f"{arch}.{key}": value for key, value in metadata.items()}


def write_gguf(
    path: Path,
    arch: str,
    metadata: dict[str, Any],
    arrays: Arrays,
    types: dict[str, gguf.GGMLQuantizationType] | None = None,
) -> Path:
    """A GGUF file. Arrays named in ``types`` hold blocks of that type already (uint8, bytes along the last axis)."""
    writer = gguf.GGUFWriter(path, arch)
    for key, value in metadata.items():
        _add(writer, key, value)
    for name, array in arrays.items():
        writer.add_tensor(name, array, raw_dtype=(types or {}).get(name))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    if isinstance(value, list):
        writer.add_array(key, value)
    elif isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    else:
        writer.add_string(key, value)


def small_gguf(path: Path, config: dict[str, Any] | None = None, **metadata: Any) -> Path:
    """A GGUF file of a small model, with more metadata if given (underscores stand for dots)."""
    config = config or LLAMA
    more = {key.replace("__", "."): value for key, value in metadata.items()}
    arch = config["model_type"].removesuffix("_text")
    arrays = gguf_arrays(config, decoder_arrays(config))
    return write_gguf(path, arch, gguf_metadata(config) | more, arrays)
