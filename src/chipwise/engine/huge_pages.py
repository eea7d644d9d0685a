"""Huge pages for weights: a decode step reads all of them, and the processor walks fewer, larger pages faster.

Linux only. On x86-64 decode of SmolLM2-135M was 13 % faster in huge pages of 2 MiB (docs/benchmarks.md).
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from chipwise.background import considerately

SETTING = "CHIPWISE_HUGE_PAGES"
"""Environment variable that turns huge pages off with the value 0."""

# linux/mman.h: make huge pages of a range now, whatever the system's setting (Linux 6.1); older kernels refuse it.
_MADV_COLLAPSE = 25
_MAPS = Path("/proc/self/maps")
_HUGE_PAGE = Path("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
# Larger ones (arm64 with 64 KiB pages has 512 MiB) would take memory that nothing lies in.
_LARGEST_PAGE_BYTES = 4 << 20

Range = tuple[int, int]


def available() -> bool:
    """Whether ``huge_pages`` can do anything here."""
    return _page_bytes() is not None


@contextmanager
def huge_pages() -> Iterator[None]:
    """Let memory that is allocated inside lie in huge pages. Where the system cannot do it nothing happens."""
    size = _page_bytes()
    if size is None:
        yield
        return
    before = _anonymous()
    yield
    ranges = [(-(-start // size) * size, end // size * size) for start, end in added(before, _anonymous())]
    considerately(lambda: _collapse(ranges))


def _collapse(ranges: Sequence[Range]) -> None:
    madvise = ctypes.CDLL(None, use_errno=True).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for first, last in ranges:
        if first < last:
            # A refusal leaves the pages as they are, which is as good as before.
            madvise(first, last - first, _MADV_COLLAPSE)


def added(before: Sequence[Range], after: Sequence[Range]) -> list[Range]:
    """What is in ``after`` and not in ``before``: ranges that were there may have grown at either end."""
    parts = list(after)
    for low, high in before:
        cut = [part for start, end in parts for part in ((start, min(end, low)), (max(start, high), end))]
        parts = [(start, end) for start, end in cut if start < end]
    return parts


def _page_bytes() -> int | None:
    """Bytes of a huge page; None where there are none, they are too large, or the user does not want them."""
    if sys.platform != "linux" or os.environ.get(SETTING) == "0":
        return None
    try:
        size = int(_HUGE_PAGE.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return size if size <= _LARGEST_PAGE_BYTES else None


def _anonymous() -> list[Range]:
    """Address ranges of the process's own writable memory that no file lies behind."""
    try:
        lines = _MAPS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        span, rights, _, _, inode, *name = line.split(maxsplit=5)
        if rights.startswith("rw") and inode == "0" and "".join(name) in ("", "[heap]"):
            start, end = (int(part, 16) for part in span.split("-"))
            found.append((start, end))
    return found
