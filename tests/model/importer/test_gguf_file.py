"""GGUF files as models: every architecture, and every way a file can be wrong."""

from __future__ import annotations

import contextlib
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chipwise.errors import ModelFormatError, UnknownArchitectureError
from chipwise.model.config import DecoderConfig
from chipwise.model.importer.gguf_file import load_gguf
from chipwise.model.importer.gguf_header import read_gguf_header
from chipwise.model.importer.huggingface import load_huggingface
from tests.model.importer.small_models import (
    DECODERS,
    GEMMA3,
    LLAMA,
    QWEN2,
    Arrays,
    decoder_arrays,
    gguf_arrays,
    gguf_metadata,
    small_gguf,
    write_gguf,
    write_hf,
)


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gguf")
    tokens = {"tokenizer__ggml__model": "gpt2", "tokenizer__ggml__tokens": ["a", "b", "ab"]}
    return small_gguf(
        folder / "model.gguf",
        general__license="mit",
        tokenizer__ggml__merges=["a b"],
        tokenizer__ggml__token_type=[1, 1, 1],
        tokenizer__chat_template="{{ messages[0].content }}",
        **tokens,
    )


@pytest.mark.parametrize("config", DECODERS, ids=lambda c: c["model_type"])
def test_same_model_as_the_folder_it_was_made_from(config: dict[str, Any], tmp_path: Path) -> None:
    weights = decoder_arrays(config)
    got = load_gguf(small_gguf(tmp_path / "m.gguf", config))
    assert got.weights is not None
    assert set(got.weights.names()) == set(weights)
    for name, wanted in weights.items():
        assert np.array_equal(got.weights.load(name), wanted), name
    # gemma's folder holds norms less one, so only the config is compared with it
    folder = load_huggingface(write_hf(tmp_path / "hf", config, _hf_arrays(config, weights)))
    assert _ignoring_storage(got.config) == _ignoring_storage(folder.config)


def _hf_arrays(config: dict[str, Any], weights: Arrays) -> Arrays:
    if config["model_type"] != "gemma3_text":
        return weights
    return {name: array - 1 if name.endswith("norm.weight") else array for name, array in weights.items()}


def _ignoring_storage(config: Any) -> dict[str, Any]:
    assert isinstance(config, DecoderConfig)
    return {**vars(config), "norm_plus_one": None}


def test_source_tokenizer_and_template(llama: Path) -> None:
    model = load_gguf(llama)
    assert (model.source.kind, model.source.name, model.source.licence) == ("gguf", "model", "mit")
    assert model.tokenizer is not None
    assert model.tokenizer.encode("abba") == [2, 1, 0]
    assert model.chat_template is not None
    assert model.chat_template.render([{"role": "user", "content": "hi"}]) == "hi"


def test_no_vocabulary_no_tokenizer(tmp_path: Path) -> None:
    model = load_gguf(small_gguf(tmp_path / "m.gguf"))
    assert model.tokenizer is None
    assert model.chat_template is None


def test_untied_output_layer(tmp_path: Path) -> None:
    config = {**LLAMA, "tie_word_embeddings": False}
    model = load_gguf(small_gguf(tmp_path / "m.gguf", config))
    assert isinstance(model.config, DecoderConfig)
    assert not model.config.tied_embeddings
    assert model.weights is not None
    assert "lm_head.weight" in model.weights


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_cut_anywhere_it_says_truncated(llama: Path, tmp_path: Path, data: st.DataObject) -> None:
    whole = llama.read_bytes()
    header_bytes = min(t.offset for t in read_gguf_header(llama).tensors.values())
    cut = data.draw(st.one_of(st.integers(0, header_bytes), st.integers(0, len(whole) - 40)))
    path = tmp_path / "cut.gguf"
    path.write_bytes(whole[:cut])
    with pytest.raises(ModelFormatError, match=r"truncated|empty|not a GGUF") as caught:
        load_gguf(path)
    assert str(path) in str(caught.value)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.floats(0, 1), value=st.integers(0, 255))
def test_a_damaged_byte_in_the_header_is_an_error_of_ours_or_none(
    llama: Path, tmp_path: Path, place: float, value: int
) -> None:
    raw = bytearray(llama.read_bytes())
    header_bytes = min(t.offset for t in read_gguf_header(llama).tensors.values())
    raw[int(place * (header_bytes - 1))] = value
    path = tmp_path / "damaged.gguf"
    path.write_bytes(raw)
    with contextlib.suppress(ModelFormatError):
        assert load_gguf(path).weights is not None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "Git-LFS pointer.*git lfs pull"),
        (b"PK\x03\x04 not one", "not a GGUF file"),
        (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "version 1"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "big-endian"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 0), "truncated"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1 << 60), "truncated"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1 << 62), "truncated"),
        (b"GGUF" + struct.pack("<IQQQ1sIIQ", 3, 0, 1, 1, b"k", 9, 4, 1 << 62), "truncated"),
        (b"GGUF" + struct.pack("<IQQQ1sIIQ", 3, 0, 1, 1, b"k", 9, 9, 1), "unknown metadata type 9"),
        (b"GGUF" + struct.pack("<IQQQ1sI", 3, 0, 1, 1, b"\xff", 4), "not UTF-8"),
    ],
)
def test_what_is_no_gguf(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelFormatError, match=message):
        load_gguf(path)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(ModelFormatError, match="missing"):
        load_gguf(tmp_path / "none.gguf")
    with pytest.raises(ModelFormatError, match="not a file"):
        load_gguf(tmp_path)


def test_part_of_a_split_file(tmp_path: Path) -> None:
    with pytest.raises(ModelFormatError, match=r"one of 3 parts.*merge"):
        load_gguf(small_gguf(tmp_path / "m.gguf", split__count=3))


def test_unknown_architecture_lists_the_known(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", "mamba", {}, {"token_embd.weight": np.zeros((4, 4), np.float32)})
    with pytest.raises(UnknownArchitectureError, match=r"'mamba'.*gemma3, llama, phi3, qwen2, qwen3"):
        load_gguf(path)


@pytest.mark.parametrize("name", ["blk.1.ffn_up.weight", "token_embd.weight", "output_norm.weight"])
def test_missing_weight_is_named(name: str, tmp_path: Path) -> None:
    arrays = gguf_arrays(LLAMA, decoder_arrays(LLAMA))
    del arrays[name]
    path = write_gguf(tmp_path / "m.gguf", "llama", gguf_metadata(LLAMA) | {"llama.vocab_size": 40}, arrays)
    with pytest.raises(ModelFormatError, match="weights are missing: model"):
        load_gguf(path)


def test_weight_of_another_shape(tmp_path: Path) -> None:
    arrays = gguf_arrays(LLAMA, decoder_arrays(LLAMA))
    arrays["blk.0.ffn_up.weight"] = np.zeros((63, 32), np.float32)
    path = write_gguf(tmp_path / "m.gguf", "llama", gguf_metadata(LLAMA), arrays)
    with pytest.raises(ModelFormatError, match=r"mlp.up_proj.*\(63, 32\), but the config says \(64, 32\)"):
        load_gguf(path)


@pytest.mark.parametrize("name", ["blk.0.attn_output.bias", "blk.1.attn_sinks.weight", "blk.0.ffn_gate_exps.weight"])
def test_a_tensor_of_no_known_use_is_refused(name: str, tmp_path: Path) -> None:
    arrays = gguf_arrays(QWEN2, decoder_arrays(QWEN2)) | {name: np.zeros(32, np.float32)}
    path = write_gguf(tmp_path / "m.gguf", "qwen2", gguf_metadata(QWEN2), arrays)
    with pytest.raises(ModelFormatError, match=name):
        load_gguf(path)


def test_nan_is_noticed_when_it_is_read(tmp_path: Path) -> None:
    arrays = gguf_arrays(LLAMA, decoder_arrays(LLAMA))
    arrays["blk.0.ffn_up.weight"][3, 5] = np.nan
    model = load_gguf(write_gguf(tmp_path / "m.gguf", "llama", gguf_metadata(LLAMA), arrays))
    assert model.weights is not None
    model.weights.load("model.layers.0.mlp.down_proj.weight")
    with pytest.raises(ModelFormatError, match=r"model.layers.0.mlp.up_proj.weight .*NaN"):
        model.weights.load("model.layers.0.mlp.up_proj.weight")
    with pytest.raises(ModelFormatError, match="no weight nonsense"):
        model.weights.info("nonsense")


def test_gemma_norms_are_stored_whole(tmp_path: Path) -> None:
    model = load_gguf(small_gguf(tmp_path / "m.gguf", GEMMA3))
    assert isinstance(model.config, DecoderConfig)
    assert not model.config.norm_plus_one
