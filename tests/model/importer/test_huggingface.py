"""Hugging Face folders as models: names, packing, prefixes, and what is missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chipwise.errors import ModelFormatError, UnknownArchitectureError
from chipwise.model.config import DecoderConfig, EncoderConfig
from chipwise.model.importer.canonical_names import encoder_shapes
from chipwise.model.importer.fields import Fields
from chipwise.model.importer.hf_encoder_config import encoder_config
from chipwise.model.importer.huggingface import load_huggingface
from tests.model.importer.small_models import (
    BERT,
    DECODERS,
    GEMMA3,
    LLAMA,
    PHI3,
    QWEN2,
    Arrays,
    decoder_arrays,
    random_weights,
    write_hf,
)


def assert_holds(folder: Path, wanted: Arrays) -> None:
    weights = load_huggingface(folder).weights
    assert weights is not None
    assert set(weights.names()) == set(wanted)
    for name, array in wanted.items():
        assert weights.info(name).shape == array.shape
        assert np.array_equal(weights.load(name), array), name
        if array.ndim == 2:
            assert np.array_equal(weights.load_rows(name, 1, 7), array[1:7]), name


@pytest.mark.parametrize("config", [c for c in DECODERS if c is not GEMMA3], ids=lambda c: c["model_type"])
@pytest.mark.parametrize("shards", [1, 3])
def test_names_are_the_folders(config: dict[str, Any], shards: int, tmp_path: Path) -> None:
    weights = decoder_arrays(config)
    assert_holds(write_hf(tmp_path, config, weights, shards), weights)


def test_norms_of_gemma_get_their_one_back(tmp_path: Path) -> None:
    weights = decoder_arrays(GEMMA3)
    wanted = {name: array + 1 if name.endswith("norm.weight") else array for name, array in weights.items()}
    assert_holds(write_hf(tmp_path, GEMMA3, weights), wanted)
    config = load_huggingface(tmp_path).config
    assert isinstance(config, DecoderConfig)
    assert config.norm_plus_one


@pytest.mark.parametrize("prefix", ["language_model.model.", "model.language_model."])
def test_text_part_of_a_multimodal_gemma(prefix: str, tmp_path: Path) -> None:
    weights = decoder_arrays(GEMMA3)
    stored = {prefix + name.removeprefix("model."): array for name, array in weights.items()}
    stored |= {
        "vision_tower.vision_model.encoder.layers.0.mlp.fc1.weight": np.ones((2, 2), np.float32),
        "multi_modal_projector.mm_input_projection_weight": np.ones((2, 2), np.float32),
    }
    config = {"model_type": "gemma3", "text_config": GEMMA3, "vision_config": {}}
    wanted = {name: array + 1 if name.endswith("norm.weight") else array for name, array in weights.items()}
    assert_holds(write_hf(tmp_path, config, stored), wanted)


def test_untied_head_of_a_multimodal_gemma(tmp_path: Path) -> None:
    text = {**GEMMA3, "tie_word_embeddings": False}
    weights = decoder_arrays(text)
    stored = {"language_model." + name: array for name, array in weights.items()}
    wanted = {name: array + 1 if name.endswith("norm.weight") else array for name, array in weights.items()}
    assert_holds(write_hf(tmp_path, {"model_type": "gemma3", "text_config": text}, stored), wanted)


def test_packed_projections_of_phi3(tmp_path: Path) -> None:
    weights = decoder_arrays(PHI3)
    stored = dict(weights)
    for layer in range(2):
        attention, mlp = f"model.layers.{layer}.self_attn", f"model.layers.{layer}.mlp"
        stored[f"{attention}.qkv_proj.weight"] = np.concatenate(
            [stored.pop(f"{attention}.{part}_proj.weight") for part in "qkv"]
        )
        stored[f"{mlp}.gate_up_proj.weight"] = np.concatenate(
            [stored.pop(f"{mlp}.{part}_proj.weight") for part in ("gate", "up")]
        )
    assert_holds(write_hf(tmp_path, PHI3, stored), weights)


def test_packed_projection_that_is_too_short(tmp_path: Path) -> None:
    weights = decoder_arrays(PHI3)
    attention = "model.layers.0.self_attn"
    parts = [weights.pop(f"{attention}.{part}_proj.weight") for part in "qkv"]
    weights[f"{attention}.qkv_proj.weight"] = np.concatenate(parts[:2])
    with pytest.raises(ModelFormatError, match="qkv_proj"):
        load_huggingface(write_hf(tmp_path, PHI3, weights))


def test_a_tied_head_in_the_file_is_the_embedding(tmp_path: Path) -> None:
    weights = decoder_arrays(LLAMA)
    stored = weights | {"lm_head.weight": weights["model.embed_tokens.weight"] + 1}
    assert_holds(write_hf(tmp_path, LLAMA, stored), weights)


def test_base_model_without_the_prefix(tmp_path: Path) -> None:
    weights = decoder_arrays(LLAMA)
    stored = {name.removeprefix("model."): array for name, array in weights.items()}
    assert_holds(write_hf(tmp_path, LLAMA, stored), weights)


def test_frequencies_in_old_files_are_ignored(tmp_path: Path) -> None:
    weights = decoder_arrays(LLAMA)
    old = {"model.layers.0.self_attn.rotary_emb.inv_freq": np.ones(4, np.float32)}
    assert_holds(write_hf(tmp_path, LLAMA, weights | old), weights)


@pytest.mark.parametrize(
    ("config", "name"),
    [
        (LLAMA, "model.layers.1.self_attn.o_proj.bias"),
        (LLAMA, "model.layers.0.self_attn.q_proj.bias"),
        (QWEN2, "model.layers.0.mlp.experts.0.up_proj.weight"),
        (PHI3, "model.layers.0.self_attn.q_norm.weight"),
    ],
)
def test_a_tensor_of_no_known_use_is_refused(config: dict[str, Any], name: str, tmp_path: Path) -> None:
    stored = decoder_arrays(config) | {name: np.zeros(32, np.float32)}
    with pytest.raises(ModelFormatError, match=name):
        load_huggingface(write_hf(tmp_path, config, stored))


def test_missing_weights_are_named_and_counted(tmp_path: Path) -> None:
    stored = {name: array for name, array in decoder_arrays(LLAMA).items() if ".layers.1." not in name}
    with pytest.raises(ModelFormatError, match=r"missing: model.layers.1.input_layernorm.weight.* and 6 more"):
        load_huggingface(write_hf(tmp_path, LLAMA, stored))


def test_weights_of_another_model(tmp_path: Path) -> None:
    config = {**LLAMA, "intermediate_size": 48}
    with pytest.raises(ModelFormatError, match=r"mlp.gate_proj.weight.*\(64, 32\), but the config says \(48, 32\)"):
        load_huggingface(write_hf(tmp_path, config, decoder_arrays(LLAMA)))


@pytest.mark.parametrize("shape", [(), (64,), (0, 32), (64, 0), (64, 32, 1), (65, 32)])
def test_weight_of_a_shape_that_cannot_be(shape: tuple[int, ...], tmp_path: Path) -> None:
    stored = decoder_arrays(LLAMA) | {"model.layers.1.mlp.up_proj.weight": np.zeros(shape, np.float32)}
    with pytest.raises(ModelFormatError, match=r"layers.1.mlp.up_proj.weight, which has shape"):
        load_huggingface(write_hf(tmp_path, LLAMA, stored))


@pytest.mark.parametrize("prefix", ["", "bert."])
@pytest.mark.parametrize("old_norms", [False, True])
def test_bert(prefix: str, old_norms: bool, tmp_path: Path) -> None:
    config = encoder_config(Fields(BERT, "test"), tmp_path)
    weights = random_weights(encoder_shapes(config))
    pooler = random_weights({"pooler.dense.weight": (32, 32), "pooler.dense.bias": (32,)})
    stored = {prefix + name: array for name, array in (weights | pooler).items()}
    if old_norms:
        renamed = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
        for new, old in renamed.items():
            stored = {name.replace(new, old): array for name, array in stored.items()}
    stored |= {f"{prefix}embeddings.position_ids": np.arange(16), "cls.predictions.bias": np.zeros(40, np.float32)}
    folder = write_hf(tmp_path / "model", BERT, stored)
    assert_holds(folder, weights | pooler)
    assert load_huggingface(folder).chat_template is None


def test_pooling_settings_of_sentence_transformers(tmp_path: Path) -> None:
    config = encoder_config(Fields(BERT, "test"), tmp_path)
    folder = write_hf(tmp_path / "model", BERT, random_weights(encoder_shapes(config)))
    (folder / "1_Pooling").mkdir()
    pooling = {"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling), "utf-8")
    modules = [
        {"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        {"idx": 2, "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
    ]
    (folder / "modules.json").write_text(json.dumps(modules), "utf-8")
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 12}', "utf-8")
    got = load_huggingface(folder).config
    assert isinstance(got, EncoderConfig)
    assert got.extra == {"pooling": pooling, "normalize": True, "max_seq_length": 12}
    (folder / "modules.json").write_text('{"0": 1}', "utf-8")
    with pytest.raises(ModelFormatError, match="not a list of modules"):
        load_huggingface(folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[1]", "not a JSON object"),
        ("[" * 100_000, "not JSON"),
        ("{}", "model_type is missing"),
        ('{"model_type": 3}', "model_type is '3', expected a text"),
        ('{"model_type": "gemma3", "text_config": 3}', "text_config"),
        ("version https://git-lfs.github.com/spec/v1\n", "LFS pointer"),
    ],
)
def test_config_that_cannot_be(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(text, "utf-8")
    with pytest.raises(ModelFormatError, match=message):
        load_huggingface(tmp_path)


def test_config_in_another_encoding(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes('{"model_type": "llama"}'.encode("utf-16"))
    with pytest.raises(ModelFormatError, match="not UTF-8 text"):
        load_huggingface(tmp_path)


def test_unknown_model_type_lists_the_known(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "mixtral"}', "utf-8")
    with pytest.raises(UnknownArchitectureError, match=r"'mixtral'.*bert, gemma3, gemma3_text, llama, phi3, qwen2"):
        load_huggingface(tmp_path)


@pytest.mark.parametrize(
    ("readme", "licence"),
    [
        ("---\nlicense: apache-2.0\nlanguage: en\n---\n# A model", "apache-2.0"),
        ("---\r\nlanguage: en\r\nlicense: 'mit'\r\n---\r\n", "mit"),
        ("# license: gpl", None),
        ("---\nlanguage: en\n---\nlicense: mit", None),
        (None, None),
    ],
)
def test_licence_of_the_model_card(readme: str | None, licence: str | None, tmp_path: Path) -> None:
    folder = write_hf(tmp_path / "SmallModel", LLAMA, decoder_arrays(LLAMA))
    if readme is not None:
        (folder / "README.md").write_bytes(readme.encode())
    source = load_huggingface(folder).source
    assert (source.kind, source.name, source.licence) == ("huggingface", "SmallModel", licence)
