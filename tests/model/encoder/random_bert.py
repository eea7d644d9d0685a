"""Small encoders as Hugging Face folders, the same on every machine, and texts for them."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from chipwise.model.importer.canonical_names import encoder_shapes
from chipwise.model.importer.fields import Fields
from chipwise.model.importer.hf_encoder_config import encoder_config

VOCAB = 61
_COMMON: dict[str, Any] = {
    "model_type": "bert",
    "architectures": ["BertModel"],
    "vocab_size": VOCAB,
    "hidden_size": 48,
    "intermediate_size": 56,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 24,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-6,
    "hidden_act": "gelu",
    "pad_token_id": 0,
}
# Settings, then the pooling flag and whether a Normalize module follows; None for a folder without modules.
CASES: dict[str, tuple[dict[str, Any], tuple[str, bool] | None]] = {
    "plain": ({}, None),
    "minilm_like": ({"layer_norm_eps": 1e-12}, ("pooling_mode_mean_tokens", True)),
    "cls_tanh": ({"hidden_act": "gelu_new"}, ("pooling_mode_cls_token", False)),
}


def inputs() -> dict[str, np.ndarray]:
    """Three texts of 13, 7 and 1 tokens, padded to 13."""
    random = np.random.RandomState(3)
    lengths = np.array([13, 7, 1])
    mask = (np.arange(13) < lengths[:, None]).astype(np.int64)
    ids = random.randint(1, VOCAB, (3, 13)) * mask
    types = (np.arange(13) >= lengths[:, None] // 2).astype(np.int64) * mask
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}


def write_folder(case: str, folder: Path) -> Path:
    """A folder whose weights depend on the case and their names alone."""
    changes, modules = CASES[case]
    settings = {**_COMMON, **changes}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(settings))
    if modules is not None:
        _write_modules(folder, *modules)
    config = encoder_config(Fields(settings, "config.json"), folder)
    shapes = encoder_shapes(config) | {"pooler.dense.weight": (48, 48), "pooler.dense.bias": (48,)}
    weights = {name: _draw(case, name, shape) for name, shape in shapes.items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def _write_modules(folder: Path, pooling: str, normalize: bool) -> None:
    kinds = ["Transformer", "Pooling"] + ["Normalize"] * normalize
    modules = [
        {
            "idx": i,
            "name": str(i),
            "path": "" if i == 0 else f"{i}_{kind}",
            "type": f"sentence_transformers.models.{kind}",
        }
        for i, kind in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir(exist_ok=True)
    flags = dict.fromkeys(("pooling_mode_cls_token", "pooling_mode_mean_tokens", "pooling_mode_max_tokens"), False)
    settings = {"word_embedding_dimension": 48, **flags, pooling: True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(settings))


def _draw(case: str, name: str, shape: tuple[int, ...]) -> np.ndarray:
    drawn = np.random.RandomState(zlib.crc32(f"{case} {name}".encode())).standard_normal(shape)
    if name.endswith("LayerNorm.weight"):
        return (1 + 0.2 * drawn).astype(np.float32)
    if len(shape) == 1:
        return (0.3 * drawn).astype(np.float32)
    return (drawn * (2.0 if "embeddings" not in name else 1.0) / np.sqrt(shape[-1])).astype(np.float32)
