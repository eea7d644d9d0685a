"""TokenBatch: the arrays that llama_decode reads, allocated once and filled by numpy."""

from __future__ import annotations

import ctypes
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from chipwise.engine.llamacpp.binding import Binding


class TokenBatch:
    """A ``llama_batch`` over memory of our own, with one sequence a token.

    Args:
        binding: llama.cpp.
        capacity: The most tokens.
    """

    def __init__(self, binding: Binding, capacity: int) -> None:
        self.capacity: Final = capacity
        self._tokens = np.zeros(capacity, np.int32)
        self._positions = np.zeros(capacity, np.int32)
        self._slots = np.zeros(capacity, np.int32)
        self._wanted = np.zeros(capacity, np.int8)
        self._counts = np.ones(capacity, np.int32)
        # An array of pointers, each to one element of the array of slots.
        self._places = (self._slots.ctypes.data + self._slots.itemsize * np.arange(capacity)).astype(np.uintp)
        self.struct = binding.llama_batch()
        types = {name: kind for name, kind, *_ in binding.llama_batch._fields_}
        for name, array in (
            ("token", self._tokens), ("pos", self._positions), ("n_seq_id", self._counts), ("seq_id", self._places),
            ("logits", self._wanted),
        ):  # fmt: skip
            setattr(self.struct, name, _pointer(array, types[name]))
        self._length = 0

    def clear(self) -> None:
        """Hold nothing."""
        self._length = self.struct.n_tokens = 0

    def add(self, slot: int, tokens: npt.NDArray[np.int64], start: int, *, every: bool) -> None:
        """Append tokens of one sequence.

        Args:
            slot: The sequence.
            tokens: Token ids ``[n]``.
            start: The position of the first.
            every: Whether logits are wanted after each; else only after the last.
        """
        first, end = self._length, self._length + len(tokens)
        self._tokens[first:end] = tokens
        self._positions[first:end] = np.arange(start, start + len(tokens))
        self._slots[first:end] = slot
        self._wanted[first:end] = every
        self._wanted[end - 1] = 1
        self._length = self.struct.n_tokens = end


def _pointer(array: npt.NDArray[Any], kind: Any) -> Any:
    return ctypes.cast(ctypes.c_void_p(array.ctypes.data), kind)
