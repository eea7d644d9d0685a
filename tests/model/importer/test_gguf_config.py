"""GGUF metadata to DecoderConfig: what the folder's config.json says, through llama.cpp's keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chipwise.errors import ModelFormatError, UnknownArchitectureError
from chipwise.model.config import DecoderConfig
from chipwise.model.importer.fields import Fields
from chipwise.model.importer.gguf_config import gguf_config
from chipwise.model.importer.gguf_header import read_gguf_header
from chipwise.model.importer.gguf_tensors import GgufTensors
from chipwise.model.importer.hf_decoder_config import decoder_config
from tests.model.importer.small_models import GEMMA3, LLAMA, PHI3, QWEN2, Arrays, gguf_metadata, write_gguf


def read(
    tmp_path: Path,
    config: dict[str, Any],
    change: dict[str, Any] | None = None,
    tensors: Arrays | None = None,
    max_context: int | None = None,
) -> DecoderConfig:
    """The config of a file with this model's metadata, changed, and only the tensors the config looks at."""
    arch = config["model_type"].removesuffix("_text")
    metadata = gguf_metadata(config) | {f"{arch}.{key}": value for key, value in (change or {}).items()}
    metadata = {key: value for key, value in metadata.items() if value is not None}
    arrays: Arrays = {"token_embd.weight": np.zeros((config["vocab_size"], config["hidden_size"]), np.float32)}
    path = write_gguf(tmp_path / "m.gguf", arch, metadata, arrays | (tensors or {}))
    header = read_gguf_header(path)
    return gguf_config(header, GgufTensors(header), max_context)


def folder(config: dict[str, Any], max_context: int | None = None) -> DecoderConfig:
    return decoder_config(Fields(config, "config.json"), config["model_type"], max_context)


def test_epsilon_is_the_decimal_it_was_written_as(tmp_path: Path) -> None:
    assert read(tmp_path, LLAMA).norm_eps == 1e-5


def test_frequencies_of_llama3_are_a_tensor(tmp_path: Path) -> None:
    scaling = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    wanted = folder(LLAMA | {"rope_scaling": scaling | {"original_max_position_embeddings": 64}}).rope.inv_freq
    plain = 10000.0 ** (-np.arange(0, 8, 2) / 8)
    assert wanted is not None
    factors = (plain / np.array(wanted)).astype(np.float32)
    got = read(tmp_path, LLAMA, tensors={"rope_freqs.weight": factors}).rope
    assert got.inv_freq == pytest.approx(wanted, rel=1e-6)
    assert got.scale == 1.0


def test_linear_scaling(tmp_path: Path) -> None:
    got = read(tmp_path, LLAMA, {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0})
    assert got.rope == folder(LLAMA | {"rope_scaling": {"type": "linear", "factor": 4.0}}).rope


def test_yarn_scaling(tmp_path: Path) -> None:
    change = {
        "rope.scaling.type": "yarn",
        "rope.scaling.factor": 4.0,
        "rope.scaling.original_context_length": 32,
        "rope.scaling.attn_factor": 1.0,  # llama.cpp multiplies it into its own, so it is no attention_factor
    }
    scaling = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
    assert read(tmp_path, LLAMA, change).rope == folder(LLAMA | {"rope_scaling": scaling}).rope


@pytest.mark.parametrize("max_context", [None, 128, 300])
def test_longrope(max_context: int | None, tmp_path: Path) -> None:
    short, long = [1.0, 1.5, 2.0, 2.5], [2.0, 3.0, 4.0, 5.0]
    config = PHI3 | {
        "max_position_embeddings": 512,
        "rope_scaling": {"type": "longrope", "short_factor": short, "long_factor": long},
    }
    change = {"rope.scaling.attn_factor": 1.1338934}
    tensors = {
        "rope_factors_short.weight": np.array(short, np.float32),
        "rope_factors_long.weight": np.array(long, np.float32),
    }
    got, wanted = read(tmp_path, config, change, tensors, max_context), folder(config, max_context)
    assert got.max_positions == wanted.max_positions == (512 if max_context == 300 else 128)
    assert got.rope.inv_freq == pytest.approx(wanted.rope.inv_freq)
    assert got.rope.scale == pytest.approx(wanted.rope.scale)


@pytest.mark.parametrize(
    ("config", "window", "slides"),
    [
        (GEMMA3 | {"num_hidden_layers": 7}, 8, (True,) * 5 + (False, True)),
        (PHI3 | {"sliding_window": 8}, 8, (True, True)),
        (PHI3 | {"sliding_window": 262144}, None, ()),
        (PHI3, None, ()),
        (LLAMA, None, ()),
    ],
)
def test_sliding_layers(config: dict[str, Any], window: int | None, slides: tuple[bool, ...], tmp_path: Path) -> None:
    got = read(tmp_path, config)
    assert (got.sliding_window, got.sliding_layers) == (window, slides)


def test_window_that_qwen_names_and_does_not_use(tmp_path: Path) -> None:
    assert not read(tmp_path, QWEN2, {"attention.sliding_window": 8}).slides(0)


def test_largest_gemma_scales_scores_by_its_width(tmp_path: Path) -> None:
    assert read(tmp_path, GEMMA3).score_scale == 16**-0.5
    assert read(tmp_path, GEMMA3 | {"num_hidden_layers": 62}).score_scale == (32 / 4) ** -0.5


def test_capped_logits_of_gemma(tmp_path: Path) -> None:
    assert read(tmp_path, GEMMA3, {"final_logit_softcapping": 30.0}).logit_softcap == 30.0


def test_biases_are_seen_in_the_tensors(tmp_path: Path) -> None:
    assert not read(tmp_path, QWEN2).qkv_bias
    assert read(tmp_path, QWEN2, tensors={"blk.0.attn_q.bias": np.zeros(32, np.float32)}).qkv_bias


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"expert_count": 8}, "expert_count is 8"),
        ({"attn_logit_softcapping": 50.0}, "attn_logit_softcapping"),
        ({"rope.scaling.type": "spiral", "rope.scaling.factor": 2.0}, "'spiral' is not supported"),
    ],
)
def test_what_would_change_the_answers_is_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(UnknownArchitectureError, match=message):
        read(tmp_path, LLAMA, change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"block_count": None}, r"m.gguf: llama.\*: block_count is missing"),
        ({"embedding_length": "wide"}, "embedding_length is 'wide'"),
        ({"attention.head_count": [4, 4]}, r"head_count is '\[4, 4\]'"),
        ({"attention.head_count_kv": 3}, "4 query heads cannot share 3"),
        ({"attention.layer_norm_rms_epsilon": None}, "layer_norm_rms_epsilon is missing"),
        ({"rope.dimension_count": 12}, "12 of 8 channels"),
        ({"rope.scaling.type": "linear"}, "factor is missing"),
    ],
)
def test_malformed_metadata_is_named(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ModelFormatError, match=message):
        read(tmp_path, LLAMA, change)


def test_frequencies_of_another_length(tmp_path: Path) -> None:
    with pytest.raises(ModelFormatError, match=r"rope_freqs.weight has 3 values, expected 4"):
        read(tmp_path, LLAMA, tensors={"rope_freqs.weight": np.ones(3, np.float32)})
    with pytest.raises(ModelFormatError, match=r"expected 4 above 0"):
        read(tmp_path, LLAMA, tensors={"rope_freqs.weight": np.zeros(4, np.float32)})
