"""SavingSession: the slots of a model whose sequences llama.cpp saves whole."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

from chipwise.engine.llamacpp.binding import ENGINE
from chipwise.engine.llamacpp.session import Floats, LlamaCppSession
from chipwise.errors import EngineError

_WORD_BYTES = 4


class SavingSession(LlamaCppSession):
    """Copies a slot through its saved state, which holds the tokens that are there and no more."""

    def save_slot(self, slot: int, tokens: int) -> Floats:
        """See ``SavesSlots``: llama.cpp's own bytes of all that the slot holds, as many float32 as they fill."""
        self._require(slot, tokens)
        state = self._state(slot)
        return np.pad(state, (0, -len(state) % _WORD_BYTES)).view(np.float32)

    def load_slot(self, slot: int, kv: Floats) -> None:
        """See ``SavesSlots``. Zeros, which are no state of any slot, overwrite what it holds."""
        self._require(slot, 0)
        if kv.any():
            self._restore(slot, np.ascontiguousarray(kv).view(np.uint8))
        else:
            self._overwrite(slot)

    def _copy(self, source: int, target: int) -> None:
        self._restore(target, self._state(source))

    def _state(self, slot: int) -> npt.NDArray[np.uint8]:
        """llama.cpp's bytes of a sequence."""
        opened = self._open()
        size = int(opened.binding.llama_state_seq_get_size(opened.context, slot))
        state = np.empty(size, np.uint8)
        written = opened.binding.llama_state_seq_get_data(opened.context, _bytes(state), size, slot)
        if not size or written != size:
            raise EngineError(f"llama.cpp cannot copy slot {slot}{self._log.reason()}", where=ENGINE)
        return state

    def _restore(self, slot: int, state: npt.NDArray[np.uint8]) -> None:
        opened = self._open()
        self._log.clear()
        self._forget(opened, slot)
        if not opened.binding.llama_state_seq_set_data(opened.context, _bytes(state), len(state), slot):
            self._forget(opened, slot)
            raise EngineError(f"llama.cpp cannot take the KV of slot {slot}{self._log.reason()}", where=ENGINE)
        self._held[slot] = int(opened.binding.llama_memory_seq_pos_max(opened.memory, slot)) + 1


def _bytes(array: npt.NDArray[np.uint8]) -> Any:
    return ctypes.cast(ctypes.c_void_p(array.ctypes.data), ctypes.POINTER(ctypes.c_uint8))
