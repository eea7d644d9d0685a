"""Mapped files: pages that a runtime read only to pack its weights, and how they are given back (Linux only).

ONNX Runtime maps a graph's weights, packs them into memory of its own and leaves the maps in place. Their pages would
count as the process's memory until the system needs them elsewhere, which on a board is when the trouble starts.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

_MADV_DONTNEED = 4
_MAPS = Path("/proc/self/smaps")


def release_pages(folder: Path) -> int:
    """Give back the pages of files below a folder that are mapped and unchanged; what is read again is loaded again.

    Returns:
        The bytes that were resident in them.
    """
    if sys.platform != "linux":
        return 0
    madvise = ctypes.CDLL(None, use_errno=True).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    released = 0
    for start, end, resident in _unchanged(str(folder.resolve()) + "/"):
        if madvise(start, end - start, _MADV_DONTNEED) == 0:
            released += resident
    return released


def _unchanged(prefix: str) -> list[tuple[int, int, int]]:
    """Start, end and resident bytes of the maps of files below a folder that hold no page of the process's own."""
    try:
        lines = _MAPS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    found: list[tuple[int, int, int]] = []
    span: tuple[int, int] | None = None
    resident = 0
    for line in lines:
        first, *rest = line.split(maxsplit=5)
        if not first.endswith(":"):
            ours = len(rest) == 5 and rest[4].startswith(prefix)
            start, end = (int(part, 16) for part in first.split("-"))
            span = (start, end) if ours else None
        elif span and first == "Rss:":
            resident = int(rest[0]) * 1024
        elif span and first == "Anonymous:" and rest[0] == "0" and resident:
            # A page that was written to is the process's own: the file does not hold what it holds.
            found.append((*span, resident))
    return found
