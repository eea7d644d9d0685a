"""KvPool: the KV cache of all slots, taken once, one array for a layer's keys and one for its values."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from chipwise.errors import EngineError, InputError

_PARTS = ("key", "value")


class KvPool:
    """Keys and values of ``n_slots`` sequences of up to ``max_context`` tokens.

    A layer's array is float32 ``[n_slots, kv_heads, max_context, head_dim]``, so neighbouring slots lie side by
    side. The system gives memory to a page when it is first written: unused context costs address space only.
    """

    def __init__(self, layers: int, n_slots: int, kv_heads: int, max_context: int, head_dim: int) -> None:
        self.layers, self.n_slots, self.max_context = layers, n_slots, max_context
        shape = (n_slots, kv_heads, max_context, head_dim)
        try:
            self._arrays = {(layer, part): np.zeros(shape, np.float32) for layer in range(layers) for part in _PARTS}
        except (MemoryError, ValueError) as e:
            raise InputError(
                f"no memory for the KV cache of {n_slots} slots of {max_context} tokens",
                where="KV pool",
                remedy="take fewer slots or a shorter context",
            ) from e

    def view(self, layer: int, part: str, first: int, rows: int) -> npt.NDArray[np.float32]:
        """The memory of neighbouring slots, float32 ``[rows, kv_heads, max_context, head_dim]``."""
        return self._arrays[layer, part][first : first + rows]

    def move(self, source: int, target: int, tokens: int) -> None:
        """Copy the first ``tokens`` tokens of a slot over another's.

        Raises:
            EngineError: A slot is not there, or holds fewer tokens.
        """
        self._require(source, tokens)
        self._require(target, tokens)
        if source == target or tokens == 0:
            return
        for array in self._arrays.values():
            array[target, :, :tokens] = array[source, :, :tokens]

    def read(self, slot: int, tokens: int) -> npt.NDArray[np.float32]:
        """A copy of a slot's first tokens, float32 ``[layers, 2, kv_heads, tokens, head_dim]``, keys before values.

        Raises:
            EngineError: There is no such slot, or it holds fewer tokens.
        """
        self._require(slot, tokens)
        parts = [self._arrays[layer, part][slot, :, :tokens] for layer in range(self.layers) for part in _PARTS]
        return np.stack(parts).reshape(self.layers, len(_PARTS), *parts[0].shape)

    def write(self, slot: int, kv: npt.NDArray[np.float32]) -> None:
        """Put back what ``read`` gave, into any slot.

        Raises:
            EngineError: There is no such slot, or it is the KV of another model or of more tokens than a slot holds.
        """
        heads, head_dim = self._arrays[0, "key"].shape[1], self._arrays[0, "key"].shape[3]
        tokens = kv.shape[3] if kv.ndim == 5 else 0
        if kv.shape != (self.layers, len(_PARTS), heads, tokens, head_dim) or kv.dtype != np.float32:
            raise EngineError(f"KV of {kv.dtype} {list(kv.shape)} is not this model's", where="KV pool")
        self._require(slot, tokens)
        for layer in range(self.layers):
            for index, part in enumerate(_PARTS):
                self._arrays[layer, part][slot, :, :tokens] = kv[layer, index]

    def close(self) -> None:
        """Give the memory back."""
        self._arrays.clear()

    def _require(self, slot: int, tokens: int) -> None:
        if not (0 <= slot < self.n_slots and 0 <= tokens <= self.max_context):
            raise EngineError(
                f"{tokens} tokens of slot {slot}; there are {self.n_slots} slots of {self.max_context}", where="KV pool"
            )
