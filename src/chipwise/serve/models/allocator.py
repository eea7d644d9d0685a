"""Allocator: lets a server that runs for months give memory back that a large request took."""

from __future__ import annotations

import ctypes
import sys
from functools import cache

# malloc.h of the GNU C library.
_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
# Above a page table's cost, below what a prompt of a few thousand tokens takes.
_LARGE_BYTES = 256 << 10
# One for the main thread and one for all others: Python lets one of them run at a time.
_HEAPS = 2


def give_back_large_blocks() -> bool:
    """Have blocks of 256 KiB and more lie in mappings of their own, which go back to the system when they are freed.

    The GNU C library raises that limit up to 32 MiB by itself once such a block was freed. Later ones then come from
    the heaps of its threads, eight a core, whose lower ends hardly ever become free again; so there are to be two of
    these (man 3 mallopt). To be called before threads are started.

    Returns:
        Whether the C library took the setting. Others, such as musl's, do so by themselves.
    """
    if sys.platform != "linux":
        return False
    mallopt = getattr(_c_library(), "mallopt", None)
    if mallopt is None:
        return False
    # Each returns 1 if it took the value.
    return bool(mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES) + mallopt(_M_ARENA_MAX, _HEAPS) == 2)


def give_back_what_is_free() -> bool:
    """Have the C library return what its heaps hold and nobody uses (man 3 malloc_trim).

    To be called after a model was closed, or a long text was read.

    Returns:
        Whether it knows how to. Others than the GNU C library do so by themselves.
    """
    trim = getattr(_c_library(), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is None:
        return False
    trim(0)
    return True


@cache
def _c_library() -> ctypes.CDLL:
    return ctypes.CDLL(None)
