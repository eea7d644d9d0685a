"""Mapped files: pages that a runtime read only to pack its weights, and how they are given back (Linux only).

ONNX Runtime maps a graph's weights, packs them into memory of its own and leaves the maps in place. Their pages would
count as the process's memory until the system needs them elsewhere, which on a board is when the trouble starts.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_MADV_DONTNEED = 4
_MAPS = Path("/proc/self/smaps")
_lock = threading.Lock()


@dataclass(eq=False)
class _Opening:
    """One that is going on.

    Attributes:
        alone: Whether no other one went on at the same time.
    """

    alone: bool = True


_going_on: set[_Opening] = set()


@dataclass(frozen=True)
class _Map:
    """A part of a file in memory.

    Attributes:
        start: Its first address.
        end: The address behind it.
        resident_bytes: How much of it is there.
        own: Whether it holds pages that were written to: the file does not hold what they hold.
    """

    start: int
    end: int
    resident_bytes: int
    own: bool


@contextmanager
def read_once(folder: Path) -> Iterator[None]:
    """Give back the pages of files below a folder that are mapped inside and unchanged; what is read again is loaded.

    Only what was mapped inside, and will be there as long as what was opened: the pages of another mapping might be
    unmapped in this moment, and others' memory lie at its address. So nothing is given back, either, where two openings
    overlap in time.

    Args:
        folder: The folder.
    """
    if sys.platform != "linux":
        yield
        return
    prefix, mine = str(folder.resolve()) + "/", _Opening()
    with _lock:
        mine.alone = not _going_on
        for other in _going_on:
            other.alone = False
        _going_on.add(mine)
    try:
        before = _maps(prefix)
        yield
        # Whoever opens something meanwhile waits, so that what it maps is not taken for what was mapped here.
        with _lock:
            if mine.alone:
                _release(before, _maps(prefix))
    finally:
        with _lock:
            _going_on.discard(mine)


def _release(before: Sequence[_Map], after: Sequence[_Map]) -> None:
    madvise = ctypes.CDLL(None, use_errno=True).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for one in after:
        is_new = all(one.end <= other.start or other.end <= one.start for other in before)
        if is_new and one.resident_bytes and not one.own:
            # A refusal leaves the pages where they are.
            madvise(one.start, one.end - one.start, _MADV_DONTNEED)


def _maps(prefix: str) -> list[_Map]:
    """What is mapped of files whose path begins so."""
    try:
        lines = _MAPS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    found: list[_Map] = []
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
        elif span and first == "Anonymous:":
            found.append(_Map(*span, resident, own=rest[0] != "0"))
    return found
