"""The header reader: every value type, and sizes that do not fit."""

from __future__ import annotations

import struct
from pathlib import Path

import gguf
import numpy as np
import pytest

from chipwise.errors import ModelFormatError
from chipwise.model.importer.gguf_header import read_gguf_header


def _string(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def _file(path: Path, entries: list[bytes] = [], tensors: list[bytes] = [], data: bytes = b"") -> Path:  # noqa: B006
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(entries)) + b"".join(entries) + b"".join(tensors)
    path.write_bytes(head + bytes(-len(head) % 32) + data)
    return path


def _tensor(name: str, dims: list[int], kind: int = 0, offset: int = 0) -> bytes:
    return _string(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)


def test_every_kind_of_value(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_uint8("u8", 200)
    writer.add_int8("i8", -3)
    writer.add_uint16("u16", 60000)
    writer.add_int16("i16", -300)
    writer.add_uint32("u32", 4_000_000_000)
    writer.add_int32("i32", -5)
    writer.add_uint64("u64", 1 << 60)
    writer.add_int64("i64", -(1 << 60))
    writer.add_float32("f32", 0.5)
    writer.add_float64("f64", 1e-300)
    writer.add_bool("yes", True)
    writer.add_string("text", "你好")
    writer.add_array("texts", ["a", "", "世界"])
    writer.add_array("numbers", [1, -2, 3])
    writer.add_array("floats", [0.5, -1.0])
    writer.add_tensor("t", np.arange(6, dtype=np.float32).reshape(2, 3))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    header = read_gguf_header(path)
    assert header.metadata == {
        "general.architecture": "llama",
        "u8": 200,
        "i8": -3,
        "u16": 60000,
        "i16": -300,
        "u32": 4_000_000_000,
        "i32": -5,
        "u64": 1 << 60,
        "i64": -(1 << 60),
        "f32": 0.5,
        "f64": 1e-300,
        "yes": True,
        "text": "你好",
        "texts": ["a", "", "世界"],
        "numbers": [1, -2, 3],
        "floats": [0.5, -1.0],
    }
    tensor = header.tensors["t"]
    assert (tensor.shape, tensor.type, tensor.nbytes) == ((2, 3), gguf.GGMLQuantizationType.F32, 24)
    raw = path.read_bytes()[tensor.offset : tensor.offset + tensor.nbytes]
    assert np.array_equal(np.frombuffer(raw, np.float32), np.arange(6))


def test_same_table_as_the_gguf_package(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_custom_alignment(64)
    rng = np.random.default_rng(0)
    for index in range(5):
        writer.add_tensor(f"t{index}", rng.standard_normal((index + 1, 32), dtype=np.float32))
    blocks = gguf.quantize(rng.standard_normal((3, 64), dtype=np.float32), gguf.GGMLQuantizationType.Q8_0)
    writer.add_tensor("q", blocks, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    ours = read_gguf_header(path).tensors
    theirs = gguf.GGUFReader(path).tensors
    assert [(t.name, t.type, t.offset, t.nbytes) for t in ours.values()] == [
        (t.name, t.tensor_type, t.data_offset, t.n_bytes) for t in theirs
    ]
    assert [t.shape for t in ours.values()] == [tuple(reversed(t.shape.tolist())) for t in theirs]


def test_a_file_without_padding_at_its_end_is_whole(tmp_path: Path) -> None:
    path = _file(tmp_path / "m.gguf", tensors=[_tensor("t", [3])], data=bytes(12))
    assert read_gguf_header(path).tensors["t"].nbytes == 12


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ([_tensor("t", [4])], "tensor t ends at byte .* of"),
        ([_tensor("t", [1 << 40, 1 << 40])], "tensor t ends at byte"),
        ([_tensor("t", [2], offset=1 << 63)], "tensor t ends at byte"),
        ([_tensor("t", [2], kind=999)], "type 999, which is unknown"),
        ([_tensor("t", [2]), _tensor("t", [2])], "two tensors are called t"),
        ([_tensor("t", [])], "has 0 dimensions"),
        ([_tensor("t", [1] * 5)], "has 5 dimensions"),
        ([_tensor("t", [0, 2])], r"has shape \(2, 0\)"),
        ([_tensor("t", [33], kind=8)], "blocks of 32"),
    ],
)
def test_tensors_that_cannot_be(tensors: list[bytes], message: str, tmp_path: Path) -> None:
    path = _file(tmp_path / "m.gguf", tensors=tensors, data=bytes(8))
    with pytest.raises(ModelFormatError, match=message):
        read_gguf_header(path)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([_string("k") + struct.pack("<II", 4, 1)] * 2, "'k' appears twice"),
        ([_string("general.alignment") + struct.pack("<II", 4, 24)], "power of two"),
        ([_string("general.alignment") + struct.pack("<II", 4, 0)], "power of two"),
        ([_string("general.alignment") + struct.pack("<I", 8) + _string("x")], "power of two"),
    ],
)
def test_metadata_that_cannot_be(entries: list[bytes], message: str, tmp_path: Path) -> None:
    path = _file(tmp_path / "m.gguf", entries, [_tensor("t", [2])], bytes(8))
    with pytest.raises(ModelFormatError, match=message):
        read_gguf_header(path)
