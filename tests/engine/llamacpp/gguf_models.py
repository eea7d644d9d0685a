"""GGUF files that llama.cpp and chipwise's importer both read: a tiny llama that speaks bytes, and the home agent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf.quants import quantize
from safetensors.numpy import load_file

from tests.model.importer.small_models import (
    LLAMA,
    Arrays,
    decoder_arrays,
    gguf_arrays,
    gguf_metadata,
    write_gguf,
)
from tests.serve.fakes import byte_alphabet

Kind = gguf.GGMLQuantizationType
_NORMAL, _CONTROL = 1, 3
BYTES_TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}"


def byte_gguf(path: Path, kind: Kind = Kind.F32, *, base: dict[str, Any] | None = None) -> Path:
    """A random model of 2 layers, by default a llama; its tokens are bytes as in ``byte_tokenizer``, and one merge."""
    config = {**(base or LLAMA), "vocab_size": 260, "max_position_embeddings": 512}
    tokens = [*byte_alphabet(), "<bos>", "<end>", "he", "<unused>"]
    metadata = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.merges": ["h e"],
        "tokenizer.ggml.token_type": [_NORMAL] * 256 + [_CONTROL, _CONTROL, _NORMAL, _CONTROL],
        "tokenizer.ggml.bos_token_id": 256,
        "tokenizer.ggml.eos_token_id": 257,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": BYTES_TEMPLATE,
    }
    # Smaller than they are drawn: logits of a trained model's size.
    weights = {name: array if "norm" in name else array * 0.3 for name, array in decoder_arrays(config).items()}
    return _write(path, config, metadata, weights, kind)


def home_agent_gguf(folder: Path, path: Path, kind: Kind = Kind.Q8_0) -> Path:
    """The model that is trained in this repository."""
    config: dict[str, Any] = json.loads((folder / "config.json").read_text("utf-8"))
    table = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    names = {id: token for token, id in table["model"]["vocab"].items()}
    control = {one["id"] for one in table["added_tokens"]}
    names |= {one["id"]: one["content"] for one in table["added_tokens"]}
    size = config["vocab_size"]
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in table["model"]["merges"]]
    metadata = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": [names.get(id, f"<unused {id}>") for id in range(size)],
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.token_type": [_CONTROL if id in control or id not in names else _NORMAL for id in range(size)],
        "tokenizer.ggml.eos_token_id": config["eos_token_id"],
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": json.loads((folder / "tokenizer_config.json").read_text("utf-8"))["chat_template"],
    }
    weights = {name: array.astype(np.float32) for name, array in load_file(folder / "model.safetensors").items()}
    return _write(path, config, metadata, weights, kind)


def _write(path: Path, config: dict[str, Any], metadata: dict[str, Any], weights: Arrays, kind: Kind) -> Path:
    arch = config["model_type"].removesuffix("_text")
    arrays, types = gguf_arrays(config, weights), {}
    for name, array in arrays.items():
        if array.ndim == 2 and kind is not Kind.F32:
            arrays[name], types[name] = quantize(array, kind), kind
    return write_gguf(path, arch, {**gguf_metadata(config), **metadata}, arrays, types)
