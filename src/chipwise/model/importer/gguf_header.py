"""The header of a GGUF file: metadata and where each tensor lies.

Every length is checked against the file before it is used; why the `gguf` package's reader does not serve is in
docs/adr/0005-gguf-header.md. Layout: ggml's docs/gguf.md, versions 2 and 3.
"""

from __future__ import annotations

import math
import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

from chipwise.errors import ModelFormatError
from chipwise.model.importer.file_checks import check_file

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_DEFAULT_ALIGNMENT = 32
_MAX_DIMS = 4
_STRING, _ARRAY, _BOOL = 8, 9, 7
_NUMPY_TYPES = {
    0: "<u1",
    1: "<i1",
    2: "<u2",
    3: "<i2",
    4: "<u4",
    5: "<i4",
    6: "<f4",
    _BOOL: "?",
    10: "<u8",
    11: "<i8",
    12: "<f8",
}


@dataclass(frozen=True)
class GgufTensor:
    """A tensor of a GGUF file.

    Attributes:
        name: GGUF's name, e.g. ``blk.0.attn_q.weight``.
        shape: Outermost dimension first (GGUF lists it last): ``(out, in)`` for a linear layer.
        type: How its values are stored.
        offset: Place in the file, in bytes.
        nbytes: Size in the file, in bytes.
    """

    name: str
    shape: tuple[int, ...]
    type: GGMLQuantizationType
    offset: int
    nbytes: int


@dataclass(frozen=True)
class GgufHeader:
    """The metadata and tensor table of a GGUF file."""

    path: Path
    metadata: dict[str, Any]
    tensors: dict[str, GgufTensor]


class _Cursor:
    """Reads forward through the mapped file; a read past its end is a ModelFormatError."""

    def __init__(self, data: mmap.mmap, path: Path) -> None:
        self._data = data
        self._path = path
        self.position = 0

    def bytes(self, count: int) -> bytes:
        end = self.position + count
        if end > len(self._data):
            raise _truncated(self._path, f"its header needs byte {end:,} of {len(self._data):,}")
        start, self.position = self.position, end
        return self._data[start:end]

    def u32(self) -> int:
        return int(struct.unpack("<I", self.bytes(4))[0])

    def u64(self) -> int:
        return int(struct.unpack("<Q", self.bytes(8))[0])

    def text(self) -> str:
        raw = self.bytes(self.u64())
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as e:
            raise _garbage(self._path, f"a text before byte {self.position:,} is not UTF-8") from e

    def value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.text()
        if kind == _ARRAY:
            return self._array(self.u32(), self.u64())
        return self._numbers(kind, 1)[0]

    def _array(self, kind: int, count: int) -> list[Any]:
        if kind == _STRING:
            return [self.text() for _ in range(count)]
        return self._numbers(kind, count)

    def _numbers(self, kind: int, count: int) -> list[Any]:
        if kind not in _NUMPY_TYPES:
            raise _garbage(self._path, f"unknown metadata type {kind} before byte {self.position:,}")
        dtype = np.dtype(_NUMPY_TYPES[kind])
        numbers: list[Any] = np.frombuffer(self.bytes(count * dtype.itemsize), dtype).tolist()
        return numbers


def read_gguf_header(path: Path) -> GgufHeader:
    """Metadata and tensor table of a GGUF file.

    Raises:
        ModelFormatError: The file is missing, a Git-LFS pointer, no GGUF, truncated, or holds a type that
            nothing here reads.
    """
    size = check_file(path)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        cursor = _Cursor(data, path)
        tensor_count, entry_count = _counts(cursor, path)
        metadata = _metadata(cursor, entry_count, path)
        infos = [_tensor_info(cursor, path) for _ in range(tensor_count)]
        start = _align(cursor.position, metadata.get("general.alignment", _DEFAULT_ALIGNMENT), path)
    tensors: dict[str, GgufTensor] = {}
    for name, shape, kind, offset in infos:
        if name in tensors:
            raise _garbage(path, f"two tensors are called {name}")
        tensors[name] = _place(name, shape, kind, start + offset, size, path)
    return GgufHeader(path, metadata, tensors)


def _counts(cursor: _Cursor, path: Path) -> tuple[int, int]:
    if cursor.bytes(4) != _MAGIC:
        raise ModelFormatError("not a GGUF file", where=str(path), remedy="give a .gguf file")
    version = cursor.u32()
    if version not in _VERSIONS:
        big_endian = version and not version & 0xFFFF
        found = "a big-endian file" if big_endian else f"GGUF version {version}"
        raise ModelFormatError(
            f"{found}, but only little-endian versions 2 and 3 are read",
            where=str(path),
            remedy="convert the model again with a current llama.cpp",
        )
    return cursor.u64(), cursor.u64()


def _metadata(cursor: _Cursor, count: int, path: Path) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    for _ in range(count):
        key = cursor.text()
        if key in metadata:
            raise _garbage(path, f"the key {key[:60]!r} appears twice")
        metadata[key] = cursor.value(cursor.u32())
    return metadata


def _tensor_info(cursor: _Cursor, path: Path) -> tuple[str, tuple[int, ...], int, int]:
    name, dims = cursor.text(), cursor.u32()
    if not 1 <= dims <= _MAX_DIMS:
        raise _garbage(path, f"tensor {name[:60]!r} has {dims} dimensions")
    shape = tuple(reversed([cursor.u64() for _ in range(dims)]))
    return name, shape, cursor.u32(), cursor.u64()


def _align(position: int, alignment: Any, path: Path) -> int:
    if not isinstance(alignment, int) or alignment <= 0 or alignment & (alignment - 1):
        raise _garbage(path, f"general.alignment is {alignment!r}, expected a power of two")
    return -(-position // alignment) * alignment


def _place(name: str, shape: tuple[int, ...], kind: int, offset: int, size: int, path: Path) -> GgufTensor:
    known = {int(member): member for member in GGML_QUANT_SIZES}
    if kind not in known:
        raise ModelFormatError(
            f"tensor {name} is stored as type {kind}, which is unknown",
            where=str(path),
            remedy="convert the model to Q8_0, Q4_K_M or F16",
        )
    block_values, block_bytes = GGML_QUANT_SIZES[known[kind]]
    if 0 in shape or shape[-1] % block_values:
        raise _garbage(path, f"tensor {name} has shape {shape}, stored in blocks of {block_values}")
    nbytes = math.prod(shape) // block_values * block_bytes
    if offset + nbytes > size:
        raise _truncated(path, f"tensor {name} ends at byte {offset + nbytes:,} of {size:,}")
    return GgufTensor(name, shape, known[kind], offset, nbytes)


def _truncated(path: Path, what: str) -> ModelFormatError:
    return ModelFormatError(f"the file is truncated: {what}", where=str(path), remedy="download it again")


def _garbage(path: Path, what: str) -> ModelFormatError:
    return ModelFormatError(f"the GGUF header is damaged: {what}", where=str(path), remedy="download the file again")
