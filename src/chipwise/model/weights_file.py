"""WeightsFile: tensors one after the other in a file that can be memory-mapped, each distinct content once."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

# A cache line, which vector loads and DMA engines ask for; a page for what is worth mapping by itself.
_ALIGN_BYTES, _PAGE_BYTES, _PAGED_FROM_BYTES = 64, 4096, 1 << 16
# Weights are often transposed views: this much of one is laid out at a time.
_CHUNK_BYTES = 16 << 20


class WeightsFile:
    """A file under a temporary name until ``commit``; leaving the context without it removes the file.

    Args:
        path: Its name once it is finished.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stream = NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False)  # noqa: SIM115
        self._part = Path(self._stream.name)
        self._by_tensor: dict[int, tuple[ir.TensorProtocol, tuple[int, int]]] = {}
        self._by_checksum: dict[tuple[int, int], list[int]] = {}
        self._committed = False

    def __enter__(self) -> WeightsFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._committed:
            with suppress(OSError):  # closing writes what is buffered, which a full disk does not take
                self._stream.close()
            self._part.unlink(missing_ok=True)

    def add(self, tensor: ir.TensorProtocol) -> tuple[int, int]:
        """Write a tensor's bytes, unless the file has them already.

        Returns:
            Offset and length in bytes.

        Raises:
            OSError: The disk is full or broken.
        """
        known = self._by_tensor.get(id(tensor))
        if known is None:
            # The tensor is kept beside its place, so that its id stays its own.
            known = self._by_tensor[id(tensor)] = (tensor, self._append(tensor))
        return known[1]

    def commit(self) -> Path:
        """Finish the file and give it its name.

        Raises:
            OSError: The disk is full or broken.
        """
        self._stream.close()
        # Temporary files are for their owner alone; this one is read by whoever reads the graph.
        self._part.chmod(0o644)
        self._part.replace(self._path)
        self._committed = True
        return self._path

    def _append(self, tensor: ir.TensorProtocol) -> tuple[int, int]:
        stream, align = self._stream, _PAGE_BYTES if tensor.nbytes >= _PAGED_FROM_BYTES else _ALIGN_BYTES
        end = stream.tell()
        stream.write(b"\0" * (-end % align))
        start = stream.tell()
        checksum = 0
        for chunk in _chunks(tensor):
            checksum = zlib.crc32(chunk, checksum)
            stream.write(chunk)
        length = stream.tell() - start
        alike = self._by_checksum.setdefault((length, checksum), [])
        for earlier in alike:
            if self._equal(earlier, start, length):
                stream.seek(end)
                stream.truncate()
                return earlier, length
        stream.seek(start + length)
        alike.append(start)
        return start, length

    def _equal(self, first: int, second: int, length: int) -> bool:
        """Whether two ranges of the file hold the same bytes."""
        for done in range(0, length, _CHUNK_BYTES):
            count = min(_CHUNK_BYTES, length - done)
            parts = []
            for start in (first, second):
                self._stream.seek(start + done)
                parts.append(self._stream.read(count))
            if parts[0] != parts[1]:
                return False
        return True


def _chunks(tensor: ir.TensorProtocol) -> Iterator[memoryview | bytes]:
    """The bytes of a tensor as ONNX stores them, without a second copy of the whole."""
    if tensor.dtype.bitwidth < 8:
        yield tensor.tobytes()
        return
    array: npt.NDArray[Any] = tensor.numpy()
    array = array.reshape(1) if array.ndim == 0 else array
    rows = max(1, _CHUNK_BYTES // max(1, array[:1].nbytes))
    for start in range(0, len(array), rows):
        yield np.ascontiguousarray(array[start : start + rows]).reshape(-1).view(np.uint8).data
