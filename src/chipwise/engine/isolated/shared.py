"""SharedMemory: memory that two processes map, of no name: it is gone with the last that holds it."""

from __future__ import annotations

import fcntl
import math
import mmap
import os
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from chipwise.errors import EngineError

T = TypeVar("T", bound=np.generic)

# Cache lines, and more than any array's elements.
_ALIGNED = 64


class SharedMemory:
    """A file in memory (Linux' memfd) that grows and never shrinks.

    A view of it stays valid when it grows, and when its file descriptor is closed.

    Attributes:
        descriptor: Its file descriptor, for the other process.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._map: mmap.mmap | None = None

    @classmethod
    def create(cls) -> SharedMemory:
        """Make one.

        Raises:
            EngineError: The system has no such memory.
            OSError: It gives no more, or refuses it.
        """
        if not hasattr(os, "memfd_create"):
            raise EngineError("an engine in a process of its own needs Linux", remedy="serve with --no-isolate")
        descriptor = os.memfd_create("chipwise", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        # Whoever cut it off would end the other process when that touches what is no more.
        try:
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        except OSError:
            os.close(descriptor)
            raise
        return cls(descriptor)

    def array(self, dtype: type[T], shape: tuple[int, ...], offset: int = 0) -> npt.NDArray[T]:
        """A view at an offset in bytes; the memory grows to hold it.

        Raises:
            EngineError: There is not as much memory.
        """
        count = math.prod(shape)
        found = self._hold(max(1, offset + np.dtype(dtype).itemsize * count))
        return np.frombuffer(found, dtype, count, offset).reshape(shape)

    def empty(self) -> None:
        """Give its pages back to the system; what is read next is zero. For what is large and seldom."""
        if self._map is not None and hasattr(mmap, "MADV_REMOVE"):
            self._map.madvise(mmap.MADV_REMOVE)

    def close(self) -> None:
        """Let go of it; views stay valid."""
        self._map = None
        if self.descriptor >= 0:
            os.close(self.descriptor)
        self.descriptor = -1

    def _hold(self, size: int) -> mmap.mmap:
        """A map of so many bytes or more."""
        if self._map is None or size > len(self._map):
            try:
                there = os.fstat(self.descriptor).st_size
                if size > there:
                    # Twice as much again: a few growths reach any size.
                    there = max(size, 2 * there)
                    os.ftruncate(self.descriptor, there)
                # The old map lives on in the views of it.
                self._map = mmap.mmap(self.descriptor, there)
            except OSError as e:
                raise EngineError(f"no {size} bytes of memory to share ({e.strerror})", where="isolation") from e
        return self._map


def aligned(size: int) -> int:
    """The next offset where an array may begin."""
    return -(-size // _ALIGNED) * _ALIGNED
