"""safetensors: every float type, shards, slices, and every way a folder can be incomplete."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from chipwise.errors import ModelFormatError
from chipwise.model.importer import safetensors_files
from chipwise.model.importer.safetensors_files import SafetensorsFiles

INDEX = "model.safetensors.index.json"


def bfloat16_file(path: Path, values: np.ndarray) -> None:
    """safetensors' numpy writer does not know bfloat16, so the file is put together here."""
    raw = values.astype(ml_dtypes.bfloat16).tobytes()
    header = json.dumps({"b": {"dtype": "BF16", "shape": values.shape, "data_offsets": [0, len(raw)]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + raw)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
def test_float_types(dtype: type, tmp_path: Path) -> None:
    values = np.random.default_rng(0).standard_normal((6, 4)).astype(dtype)
    save_file({"w": values}, tmp_path / "model.safetensors")
    raw = SafetensorsFiles(tmp_path)
    assert raw.rows("w", 0, 6).dtype == np.float32
    assert np.array_equal(raw.rows("w", 0, 6), values.astype(np.float32))
    assert np.array_equal(raw.rows("w", 2, 5), values[2:5].astype(np.float32))
    assert raw.infos["w"].nbytes == values.nbytes
    assert raw.blocks("w", 0, 1) is None


def test_bfloat16(tmp_path: Path) -> None:
    values = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
    bfloat16_file(tmp_path / "model.safetensors", values)
    raw = SafetensorsFiles(tmp_path)
    assert raw.infos["b"].stored_as == "BF16"
    assert np.array_equal(raw.rows("b", 1, 4), values.astype(ml_dtypes.bfloat16).astype(np.float32)[1:4])


def test_rows_across_the_seams_of_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safetensors_files, "_CHUNK_VALUES", 10)
    values = np.random.default_rng(0).standard_normal((11, 4)).astype(np.float32)
    save_file({"w": values, "v": values[:, 0].copy()}, tmp_path / "model.safetensors")
    raw = SafetensorsFiles(tmp_path)
    assert np.array_equal(raw.rows("w", 0, 11), values)
    assert np.array_equal(raw.rows("w", 3, 8), values[3:8])
    assert np.array_equal(raw.rows("v", 0, 11), values[:, 0])
    assert raw.rows("w", 4, 4).shape == (0, 4)


def test_a_single_file_of_another_name(tmp_path: Path) -> None:
    save_file({"w": np.ones(3, np.float32)}, tmp_path / "adapter.safetensors")
    assert SafetensorsFiles(tmp_path).rows("w", 0, 3).tolist() == [1, 1, 1]


def test_other_types_are_refused_when_they_are_read(tmp_path: Path) -> None:
    save_file({"ids": np.ones(3, np.int32), "w": np.ones(3, np.float32)}, tmp_path / "model.safetensors")
    raw = SafetensorsFiles(tmp_path)
    assert raw.rows("w", 0, 3).tolist() == [1, 1, 1]
    with pytest.raises(ModelFormatError, match="tensor ids is stored as I32; read are F64, F32, F16, BF16"):
        raw.rows("ids", 0, 3)


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    save_file({"a": np.zeros((2, 2), np.float32)}, tmp_path / "part-1.safetensors")
    save_file({"b": np.ones((2, 2), np.float32)}, tmp_path / "part-2.safetensors")
    index = {"weight_map": {"a": "part-1.safetensors", "b": "part-2.safetensors"}}
    (tmp_path / INDEX).write_text(json.dumps(index), "utf-8")
    return tmp_path


def test_shards(sharded: Path) -> None:
    raw = SafetensorsFiles(sharded)
    assert set(raw.infos) == {"a", "b"}
    assert raw.rows("b", 0, 1).tolist() == [[1, 1]]


def test_missing_shard(sharded: Path) -> None:
    (sharded / "part-2.safetensors").unlink()
    with pytest.raises(ModelFormatError, match=r"part-2.safetensors: the file is missing; download"):
        SafetensorsFiles(sharded)


def test_shard_that_is_a_pointer(sharded: Path) -> None:
    (sharded / "part-1.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 9\n")
    with pytest.raises(ModelFormatError, match=r"part-1.safetensors: a Git-LFS pointer.*git lfs pull"):
        SafetensorsFiles(sharded)


def test_shard_that_lacks_what_the_index_promises(sharded: Path) -> None:
    save_file({"a": np.zeros(2, np.float32)}, sharded / "part-2.safetensors")
    with pytest.raises(ModelFormatError, match=r"part-2.safetensors: the file lacks b"):
        SafetensorsFiles(sharded)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ("{", "not JSON"),
        ("[]", "not a JSON object"),
        ('{"weight_map": []}', "weight_map"),
        ('{"weight_map": {"a": "../elsewhere.safetensors"}}', "no file name"),
        ('{"weight_map": {"a": 3}}', "no file name"),
        ('{"weight_map": {}}', "no weights"),
        ("{}", "no weights"),
    ],
)
def test_index_that_cannot_be(index: str, message: str, sharded: Path) -> None:
    (sharded / INDEX).write_text(index, "utf-8")
    with pytest.raises(ModelFormatError, match=message):
        SafetensorsFiles(sharded)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([], "no .safetensors files; download"),
        (["pytorch_model.bin"], "only pytorch_model.bin; save the model again with safe_serialization"),
        (["model.gguf"], "only model.gguf; give that file"),
        (["a.safetensors", "b.safetensors"], f"several .safetensors files, but no {INDEX}"),
    ],
)
def test_folder_without_weights(files: list[str], message: str, tmp_path: Path) -> None:
    for name in files:
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(ModelFormatError, match=message):
        SafetensorsFiles(tmp_path)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_cut_anywhere(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "model.safetensors"
    save_file({"a": np.zeros((3, 4), np.float32), "b": np.zeros(5, np.float16)}, path)
    whole = path.read_bytes()
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(ModelFormatError, match=r"truncated|empty"):
        SafetensorsFiles(tmp_path)


@pytest.mark.parametrize(
    "content",
    [b"\xff" * 64, b"PK\x03\x04 a zip of pickles", struct.pack("<Q", 4) + b"nope", struct.pack("<Q", 1 << 60)],
)
def test_garbage(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(ModelFormatError, match="truncated or no safetensors file"):
        SafetensorsFiles(tmp_path)
