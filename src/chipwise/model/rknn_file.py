"""RknnFile: what a compiled model of Rockchip's toolkit says about itself, read without the toolkit.

The layout was learnt by comparing files that rknn-toolkit2 2.5.0 wrote from graphs of our own with the tables it
printed while it wrote them; what those do not settle is said to be unknown. All numbers are little-endian.

======================  ================================================================================
64 bytes                header: ``RKNN`` at 0, u64 format version at 8, u64 length of the tables at 16
that length             tables: a FlatBuffer with graph, tensors, operators, constants and commands
u64, then that length   JSON: ``target_platform``, ``version`` (of the toolkit), names and shapes of the borders
======================  ================================================================================
"""

from __future__ import annotations

import struct
from dataclasses import asdict, dataclass
from io import FileIO
from pathlib import Path
from typing import Any

from chipwise.errors import ModelFormatError
from chipwise.files import is_lfs_pointer
from chipwise.model.flat_table import FlatBytes
from chipwise.model.rknn_json import MAX_JSON_BYTES, RknnJson, read_json
from chipwise.model.rknn_tables import RknnCrossing, RknnOperator, RknnTables, RknnTensor, read_tables

__all__ = ["RknnCrossing", "RknnFile", "RknnOperator", "RknnTensor", "is_rknn_file", "read_rknn_file"]

_MAGIC = b"RKNN"
_HEADER_BYTES = 64
# The format whose tables were compared with the toolkit's own output.
_KNOWN_FORMAT = 6
_REMEDY = "copy or build the file again"


@dataclass(frozen=True)
class RknnFile:
    """What a .rknn file holds.

    Attributes:
        format_version: The version of the file format; the board's runtime must know it.
        targets: The chips it is for, e.g. ``rk3588``.
        toolkit_version: The toolkit that wrote it; the board's runtime must match it.
        framework: What the model was written in, e.g. ``ONNX``; empty if not stated.
        inputs: Its inputs, in order.
        outputs: Its outputs, in order.
        operators: Its operators in the order they run, without the ones that stand for inputs and outputs; None where
            the format version is one whose tables are not known.
        crossings: The tensors that pass between the NPU and the CPU inside the model; None where ``operators`` is.
        graphs: How many graphs it has: one for each input shape it was built for, the first of which is described
            here; None where ``operators`` is.
        weight_bytes: Memory its constants take on the board, as the file states it, without a table that the CPU
            looks up (an embedding); None if not known.
        internal_bytes: Memory its activations take on the board; None if not known.
        file_bytes: The file's own size.
    """

    format_version: int
    targets: tuple[str, ...]
    toolkit_version: str
    framework: str
    inputs: tuple[RknnTensor, ...]
    outputs: tuple[RknnTensor, ...]
    operators: tuple[RknnOperator, ...] | None
    crossings: tuple[RknnCrossing, ...] | None
    graphs: int | None
    weight_bytes: int | None
    internal_bytes: int | None
    file_bytes: int

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, as ``--json`` prints them."""
        return asdict(self)


def is_rknn_file(path: Path) -> bool:
    """Whether a path is meant as such a file: by its name's end or its first bytes."""
    if path.suffix.lower() == ".rknn" and not path.is_dir():
        return True
    try:
        with path.open("rb") as stream:
            return stream.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def read_rknn_file(path: Path) -> RknnFile:
    """Read what a .rknn file says about itself: a few pieces of it, so that its weights take no memory.

    Raises:
        ModelFormatError: The file is missing, unreadable, truncated, damaged, or no .rknn file.
    """
    where = str(path)
    if is_lfs_pointer(path):
        raise ModelFormatError("a Git LFS pointer, not the file itself", where=where, remedy="run `git lfs pull`")
    try:
        with path.open("rb", buffering=0) as stream:
            return _read(stream, path.stat().st_size, where)
    except OSError as e:
        raise ModelFormatError(f"cannot read ({e.strerror})", where=where) from e


def _read(stream: FileIO, file_bytes: int, where: str) -> RknnFile:
    version, length = _header(stream, file_bytes, where)
    text = read_json(_json_bytes(stream, _HEADER_BYTES + length, file_bytes, where), where)
    tables = None
    if version == _KNOWN_FORMAT:
        tables = read_tables(FlatBytes(stream, _HEADER_BYTES, length, where))
        _agree(tables, text, where)
    return RknnFile(
        format_version=version,
        targets=text.targets,
        toolkit_version=text.toolkit_version,
        framework=text.framework,
        inputs=tables.inputs if tables else text.inputs,
        outputs=tables.outputs if tables else text.outputs,
        operators=tables.operators if tables else None,
        crossings=tables.crossings if tables else None,
        graphs=tables.graphs if tables else None,
        weight_bytes=tables.weight_bytes if tables else None,
        internal_bytes=tables.internal_bytes if tables else None,
        file_bytes=file_bytes,
    )


def _header(stream: FileIO, file_bytes: int, where: str) -> tuple[int, int]:
    """The format version and the bytes of the tables, which lie inside the file."""
    head = stream.read(_HEADER_BYTES)
    if not head or head[: len(_MAGIC)] != _MAGIC[: len(head)]:
        what = f"it begins with {head[:4]!r}, not with {_MAGIC!r}" if head else "it is empty"
        raise ModelFormatError(f"no .rknn file: {what}", where=where, remedy=_REMEDY)
    if len(head) < _HEADER_BYTES:
        raise _truncated(f"{len(head)} of the header's {_HEADER_BYTES} bytes are there", where)
    version, length = struct.unpack_from("<QQ", head, 8)
    if _HEADER_BYTES + length + 8 > file_bytes:
        raise _truncated(f"its header announces {length} bytes of tables, the file has {file_bytes} in all", where)
    return version, length


def _json_bytes(stream: FileIO, start: int, file_bytes: int, where: str) -> bytes:
    stream.seek(start)
    (length,) = struct.unpack("<Q", stream.read(8).ljust(8, b"\0"))
    if start + 8 + length > file_bytes:
        raise _truncated(f"{length} bytes of JSON are announced, {file_bytes - start - 8} are there", where)
    return stream.read(min(length, MAX_JSON_BYTES + 1))


def _agree(tables: RknnTables, text: RknnJson, where: str) -> None:
    for kind, one, other in (("inputs", tables.inputs, text.inputs), ("outputs", tables.outputs, text.outputs)):
        if [tensor.name for tensor in one] != [tensor.name for tensor in other]:
            raise ModelFormatError(f"its tables and its JSON name different {kind}", where=where, remedy=_REMEDY)


def _truncated(what: str, where: str) -> ModelFormatError:
    return ModelFormatError(f"truncated or damaged: {what}", where=where, remedy=_REMEDY)
