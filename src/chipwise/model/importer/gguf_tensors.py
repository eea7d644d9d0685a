"""GgufTensors: the tensors of a GGUF file, mapped and dequantized a few rows at a time."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt
from gguf.constants import GGMLQuantizationType
from gguf.quants import dequantize

from chipwise.errors import ModelFormatError
from chipwise.model.importer.gguf_header import GgufHeader, GgufTensor
from chipwise.model.importer.raw_tensors import RawInfo
from chipwise.model.weights import Float32Array

_FLOATS = ("F32", "F16", "BF16")
_BLOCKS = ("Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K")
SUPPORTED_TYPES = frozenset(GGMLQuantizationType[name] for name in _FLOATS + _BLOCKS)

# The dequantizer's temporaries are several times its result: this keeps them small beside any matrix.
_CHUNK_VALUES = 1 << 20


class GgufTensors:
    """A RawTensors over a GGUF file; values are bit-equal to ``gguf.quants.dequantize``."""

    def __init__(self, header: GgufHeader) -> None:
        self._header = header
        for tensor in header.tensors.values():
            unreadable_vector = len(tensor.shape) == 1 and tensor.type.name not in _FLOATS
            if tensor.type not in SUPPORTED_TYPES or unreadable_vector:
                raise ModelFormatError(
                    f"tensor {tensor.name} is stored as {tensor.type.name}; read are {', '.join(_FLOATS + _BLOCKS)}",
                    where=self.where,
                    remedy="convert the model to one of these types",
                )

    @property
    def where(self) -> str:
        """The file."""
        return str(self._header.path)

    @cached_property
    def infos(self) -> dict[str, RawInfo]:
        """Every tensor by GGUF's name."""
        return {t.name: RawInfo(t.shape, t.type.name, t.nbytes) for t in self._header.tensors.values()}

    def rows(self, name: str, start: int, stop: int) -> Float32Array:
        """Rows ``start`` to ``stop``, dequantized."""
        tensor = self._header.tensors[name]
        width = 1 if len(tensor.shape) == 1 else int(np.prod(tensor.shape[1:]))
        out = np.empty((stop - start, width), np.float32)
        step = max(1, _CHUNK_VALUES // width)
        for row in range(start, stop, step):
            end = min(row + step, stop)
            with np.errstate(all="ignore"):  # whoever asked for the rows looks for damaged values
                out[row - start : end - start] = dequantize(self._map(tensor, row, end), tensor.type)
        return out.reshape(stop - start, *tensor.shape[1:])

    def blocks(self, name: str, start: int, stop: int) -> npt.NDArray[np.uint8] | None:
        """The blocks of rows ``start`` to ``stop``; None for tensors in plain floating point."""
        tensor = self._header.tensors[name]
        if tensor.type.name in _FLOATS:
            return None
        return np.array(self._map(tensor, start, stop))

    def _map(self, tensor: GgufTensor, start: int, stop: int) -> npt.NDArray[np.uint8]:
        row_bytes = tensor.nbytes // tensor.shape[0]
        if start == stop:
            return np.empty((0, row_bytes), np.uint8)
        mapped = np.memmap(
            self._header.path,
            np.uint8,
            mode="r",
            offset=tensor.offset + start * row_bytes,
            shape=(stop - start, row_bytes),
        )
        # A plain view: gguf slices it a thousand times, and each slice of a memmap costs ten of an array.
        return mapped.view(np.ndarray)
