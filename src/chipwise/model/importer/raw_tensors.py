"""RawTensors: the tensors of a file under the names the file gives them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from chipwise.model.weights import Float32Array


@dataclass(frozen=True)
class RawInfo:
    """Shape (outermost dimension first), storage type and bytes of a tensor in its file."""

    shape: tuple[int, ...]
    stored_as: str
    nbytes: int


class RawTensors(Protocol):
    """Tensors of one model in one or several files. Nothing stays mapped between calls."""

    @property
    def where(self) -> str:
        """The file or folder, for messages."""
        ...

    @property
    def infos(self) -> dict[str, RawInfo]:
        """Every tensor by the file's name for it."""
        ...

    def rows(self, name: str, start: int, stop: int) -> Float32Array:
        """Rows ``start`` to ``stop`` of the outermost dimension, in float32."""
        ...

    def blocks(self, name: str, start: int, stop: int) -> npt.NDArray[np.uint8] | None:
        """The bytes of these rows, one row of blocks each; None if the file does not store blocks."""
        ...
