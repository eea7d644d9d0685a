"""WeightSource: named weights read from memory-mapped files, one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

Float32Array = npt.NDArray[np.float32]


@dataclass(frozen=True)
class WeightInfo:
    """What is known of a weight without reading it.

    Attributes:
        name: Canonical name: Hugging Face's for the llama family (``model.layers.0.self_attn.q_proj.weight``),
            for every file format.
        shape: Shape as Hugging Face has it: ``[out, in]`` for a linear layer.
        stored_as: How the file stores it, e.g. ``BF16``, ``Q4_1``.
        nbytes: Bytes in the file.
    """

    name: str
    shape: tuple[int, ...]
    stored_as: str
    nbytes: int


class WeightSource(Protocol):
    """Weights by canonical name. Nothing stays in memory after ``load`` but what it returned.

    The source undoes what its format did (GGUF's permuted q and k of llama, gemma's norm weights less one,
    phi3's packed projections are split into q_proj, k_proj, v_proj, gate_proj, up_proj).
    """

    def names(self) -> Iterator[str]:
        """All canonical names."""
        ...

    def info(self, name: str) -> WeightInfo:
        """Shape and storage of a weight.

        Raises:
            ModelFormatError: The file has no such weight.
        """
        ...

    def load(self, name: str) -> Float32Array:
        """The weight in float32, shaped as ``info(name).shape``.

        Raises:
            ModelFormatError: The file has no such weight, or is truncated.
        """
        ...

    def load_rows(self, name: str, start: int, stop: int) -> Float32Array:
        """Rows ``start`` to ``stop`` of a matrix in float32, so that a large one need never be whole in memory."""
        ...

    def __contains__(self, name: object) -> bool:
        """Whether the file has a weight of that name."""
        ...


@runtime_checkable
class BlockSource(Protocol):
    """A WeightSource whose file may hold weights in quantized blocks, to be repacked without quantizing anew."""

    def raw_blocks(self, name: str) -> tuple[str, npt.NDArray[np.uint8]] | None:
        """Storage type (``Q4_0``, ``Q4_1``, ...) and bytes of a weight, the blocks of one output row in each row.

        None if the file stores plain numbers, or if the weight is not the tensor as it is stored.

        Raises:
            ModelFormatError: The file has no such weight.
        """
        ...
