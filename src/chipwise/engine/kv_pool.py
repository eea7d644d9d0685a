"""KvPool: the KV cache of all slots, taken once, one array for a layer's keys and one for its values."""

from __future__ import annotations

import errno
import math
import mmap
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from chipwise.engine.shared_pages import PageMap, SharedPages, available
from chipwise.errors import EngineError, InputError

_PARTS = ("key", "value")
_FLOAT_BYTES = 4
# Linux maps up to as many neighbours of a page that is touched, if they are there.
_TOUCHED_PAGES = 16


class Place(NamedTuple):
    """Where float32 numbers lie.

    Attributes:
        shape: ``[rows, kv_heads, capacity, head_dim]``.
        address: Of the first one.
    """

    shape: tuple[int, int, int, int]
    address: int


class KvPool:
    """Keys and values of ``n_slots`` sequences of up to ``max_context`` tokens.

    A layer's array is float32 ``[n_slots, kv_heads, capacity, head_dim]``, so neighbouring slots lie side by
    side. The system gives memory to a page when it is first written: unused context costs address space only.

    Args:
        layers: Layers with a cache.
        n_slots: Sequences held at once.
        kv_heads: Heads of keys and values.
        max_context: Tokens a slot holds.
        head_dim: Channels of a head.
        repeats: How often ``repeat`` shows a slot; 1 if nobody wants that. Where the system cannot do it the pool
            has 1, whatever was asked.

    Attributes:
        capacity: Tokens there is room for in a slot: ``max_context``, or some more so that slots fill whole pages.
        repeats: See above.
    """

    def __init__(
        self, layers: int, n_slots: int, kv_heads: int, max_context: int, head_dim: int, *, repeats: int = 1
    ) -> None:
        self.layers, self.n_slots, self.max_context = layers, n_slots, max_context
        self.capacity, self.repeats = max_context, repeats if available() else 1
        if self.repeats > 1:
            whole = mmap.ALLOCATIONGRANULARITY // math.gcd(
                mmap.ALLOCATIONGRANULARITY, kv_heads * head_dim * _FLOAT_BYTES
            )
            self.capacity = -(-max_context // whole) * whole
        self._shape = (n_slots, kv_heads, self.capacity, head_dim)
        self._slot_bytes = kv_heads * self.capacity * head_dim * _FLOAT_BYTES
        self._pages: SharedPages | None = None
        self._window: PageMap | None = None
        self._rows: list[npt.NDArray[np.float32]] = []
        self._repeated, self._ready = -1, 0
        try:
            self._arrays = self._take()
        except (MemoryError, ValueError, OSError, OverflowError) as e:
            raise InputError(
                f"no memory for the KV cache of {n_slots} slots of {max_context} tokens",
                where="KV pool",
                remedy="take fewer slots or a shorter context",
            ) from e
        if self._pages is not None:
            self._reserve(self._pages)

    def view(self, layer: int, part: str, first: int, rows: int) -> npt.NDArray[np.float32]:
        """The memory of neighbouring slots, float32 ``[rows, kv_heads, capacity, head_dim]``."""
        return self._arrays[layer, part][first : first + rows]

    def place(self, layer: int, part: str, first: int, rows: int) -> Place:
        """Where neighbouring slots lie."""
        return Place((rows, *self._shape[1:]), self.view(layer, part, first, rows).ctypes.data)

    def repeat(self, slot: int, tokens: int) -> bool:
        """Let the rows of ``repeated`` be this slot, each of them the same memory.

        Args:
            slot: The slot.
            tokens: How many of its tokens, from the first, will be read or written there.

        Returns:
            Whether something had to be done for it; mostly not.

        Raises:
            EngineError: There is no such slot, it holds fewer tokens, or the system refuses it.
        """
        self._require(slot, tokens)
        if slot == self._repeated and tokens <= self._ready:
            return False
        if self._window is None:
            raise EngineError("slots cannot be shown more than once here", where="KV pool")
        if slot != self._repeated:
            self._show(self._window, slot)
        self._touch(slot, tokens)
        return True

    def _reserve(self, pages: SharedPages) -> None:
        """Take addresses for all rows at the start. A system that has too few shows each slot once."""
        row_bytes = self.repeats * self._slot_bytes
        try:
            self._window = window = PageMap(pages, len(self._arrays) * row_bytes)
            self._show(window, 0)
        except (OSError, OverflowError, EngineError):
            self._window, self.repeats = None, 1
            return
        shape = (self.repeats, *self._shape[1:])
        self._rows = [window.array(index * row_bytes, shape) for index in range(len(self._arrays))]

    def _show(self, window: PageMap, slot: int) -> None:
        self._repeated, self._ready = -1, 0
        for index in range(len(self._arrays) * self.repeats):
            first = (index // self.repeats * self.n_slots + slot) * self._slot_bytes
            window.put(index * self._slot_bytes, first, self._slot_bytes)
        self._repeated = slot

    def _touch(self, slot: int, tokens: int) -> None:
        """Have the pages of these tokens, and of some more, at all their addresses: a fault each takes longer."""
        page = max(1, mmap.PAGESIZE // (self._shape[3] * _FLOAT_BYTES))
        block = page * _TOUCHED_PAGES
        places = slice(self._ready, min(self.capacity, -(-tokens // block) * block), page)
        for array, rows in zip(self._arrays.values(), self._rows, strict=True):
            own = array[slot, :, places, 0]
            own[...] = own.copy()
            rows[:, :, places, 0].copy()
        self._ready = places.stop

    def repeated(self, layer: int, part: str, rows: int) -> Place:
        """Where the slot of ``repeat`` lies ``rows`` times side by side; the same place for every slot.

        Raises:
            EngineError: None can be shown more than once.
        """
        if self._window is None:
            raise EngineError("slots cannot be shown more than once here", where="KV pool")
        index = layer * len(_PARTS) + _PARTS.index(part)
        return Place((rows, *self._shape[1:]), self._window.address + index * self.repeats * self._slot_bytes)

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
        self._rows.clear()
        self._window = None
        if self._pages is not None:
            self._pages.close()
            self._pages = None

    def _take(self) -> dict[tuple[int, str], npt.NDArray[np.float32]]:
        keys = [(layer, part) for layer in range(self.layers) for part in _PARTS]
        if self.repeats == 1 or not keys:
            return {key: np.zeros(self._shape, np.float32) for key in keys}
        array_bytes = self.n_slots * self._slot_bytes
        try:
            self._pages = pages = SharedPages(len(keys) * array_bytes)
        except OSError as e:
            if e.errno == errno.ENOMEM:
                raise
            # There is the memory, but not as a file: RLIMIT_FSIZE or RLIMIT_NOFILE forbids one.
            self.repeats = 1
            return {key: np.zeros(self._shape, np.float32) for key in keys}
        return {key: pages.array(index * array_bytes, self._shape) for index, key in enumerate(keys)}

    def _require(self, slot: int, tokens: int) -> None:
        if not (0 <= slot < self.n_slots and 0 <= tokens <= self.max_context):
            raise EngineError(
                f"{tokens} tokens of slot {slot}; there are {self.n_slots} slots of {self.max_context}", where="KV pool"
            )
