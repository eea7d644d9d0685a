"""SharedPages: memory of this process that can be mapped at several addresses at once (Linux only)."""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from typing import Final

import numpy as np
import numpy.typing as npt

from chipwise.errors import EngineError

_NAME = "chipwise-kv"
# linux/mman.h: put the map where the caller says, in place of what is there.
_MAP_FIXED = 0x10


def available() -> bool:
    """Whether the system can do it, and lets this process."""
    if sys.platform != "linux":
        return False
    try:
        os.close(os.memfd_create(_NAME))
    except OSError:
        return False
    return True


class SharedPages:
    """Pages that start as zeros and are taken when they are first written, as those of ``numpy.zeros``.

    They live as long as an array over them or a ``PageMap`` does.

    Raises:
        OSError: The system refuses it, or has not the memory.
        ValueError: The size is none.
        OverflowError: No address is that large.
    """

    def __init__(self, size_bytes: int) -> None:
        _require_memory(size_bytes)
        self.fd = os.memfd_create(_NAME)
        try:
            os.ftruncate(self.fd, size_bytes)
            self._map = mmap.mmap(self.fd, size_bytes)
        except BaseException:
            os.close(self.fd)
            raise

    def array(self, first_byte: int, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
        """Float32 over the memory itself."""
        count = int(np.prod(shape))
        return np.frombuffer(self._map, np.float32, count, first_byte).reshape(shape)

    def close(self) -> None:
        """Map nothing more. What is mapped stays until its arrays are gone."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class PageMap:
    """Addresses that parts of shared pages are put at, side by side, as often as one likes.

    Args:
        pages: What is mapped.
        size_bytes: How long it is, a multiple of ``mmap.PAGESIZE``.

    Raises:
        OSError: The system has no such range of addresses.
    """

    def __init__(self, pages: SharedPages, size_bytes: int) -> None:
        self._pages = pages
        # The range is reserved so that nobody else gets an address in it, and goes with this object.
        self._range = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ)
        self.address: Final = int(np.frombuffer(self._range, np.uint8).ctypes.data)
        self._mmap = ctypes.CDLL(None, use_errno=True).mmap
        self._mmap.restype = ctypes.c_void_p
        self._mmap.argtypes = (
            ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_longlong,
        )  # fmt: skip

    def array(self, first_byte: int, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
        """Float32 over a part of it, as long as this object lives."""
        count = int(np.prod(shape))
        numbers = (ctypes.c_float * count).from_address(self.address + first_byte)
        return np.ctypeslib.as_array(numbers).reshape(shape)

    def put(self, place_byte: int, first_byte: int, size_bytes: int) -> None:
        """Show a part of the pages at a place of this map. All three are multiples of ``mmap.PAGESIZE``.

        Raises:
            EngineError: The system refuses it.
        """
        where = self.address + place_byte
        rights, flags = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED | _MAP_FIXED
        if self._mmap(where, size_bytes, rights, flags, self._pages.fd, first_byte) != where:
            reason = os.strerror(ctypes.get_errno())
            raise EngineError(f"the system cannot map a slot of the KV cache once more ({reason})", where="KV pool")


def _require_memory(size_bytes: int) -> None:
    """Ask for as much memory of the process's own, which the system refuses if there cannot be so much.

    Shared memory it would give, and fail later, when it is written.
    """
    mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
