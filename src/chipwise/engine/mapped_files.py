"""Mapped files: pages that a runtime read only to pack its weights, and how they are given back (Linux only).

ONNX Runtime maps a graph's weights, packs them into memory of its own and leaves the maps in place. Their pages would
count as the process's memory until the system needs them elsewhere, which on a board is when the trouble starts.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_MADV_DONTNEED = 4
# The first tells the addresses alone, the second what is in memory too, for which the kernel looks at each page.
_SPANS, _MAPS = Path("/proc/self/maps"), Path("/proc/self/smaps")
_FIELDS = re.compile(rb"(?:\w+:.*\n)*?Rss: +(\d+) .*\n(?:\w+:.*\n)*?Anonymous: +(\d+) ")
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
    prefix, mine = _prefix(folder), _Opening()
    with _lock:
        mine.alone = not _going_on
        for other in _going_on:
            other.alone = False
        _going_on.add(mine)
    try:
        before = _spans(prefix)
        yield
        # Whoever opens something meanwhile waits, so that what it maps is not taken for what was mapped here.
        with _lock:
            if mine.alone:
                _release(before, _maps(prefix))
    finally:
        with _lock:
            _going_on.discard(mine)


def _release(before: Sequence[tuple[int, int]], after: Sequence[_Map]) -> None:
    madvise = ctypes.CDLL(None, use_errno=True).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for one in after:
        is_new = all(one.end <= start or end <= one.start for start, end in before)
        if is_new and one.resident_bytes and not one.own:
            # A refusal leaves the pages where they are.
            madvise(one.start, one.end - one.start, _MADV_DONTNEED)


def _spans(prefix: bytes) -> list[tuple[int, int]]:
    """First addresses, and those behind, of what is mapped of files whose path begins so."""
    return [(start, end) for start, end, _ in _headers(_read(_SPANS), prefix)]


def _maps(prefix: bytes) -> list[_Map]:
    """The same, with what of it is in memory."""
    text = _read(_MAPS)
    return [
        _Map(start, end, int(fields[1]) * 1024, own=fields[2] != b"0")
        for start, end, behind in _headers(text, prefix)
        if (fields := _FIELDS.match(text, behind))
    ]


def _headers(text: bytes, prefix: bytes) -> Iterator[tuple[int, int, int]]:
    """The addresses of each of them, and where the text goes on behind the line that tells them.

    Looks only where the path is: a server has tens of thousands of lines, and its requests wait for the interpreter.
    """
    at = text.find(prefix)
    while at >= 0:
        line_at, behind = text.rfind(b"\n", 0, at) + 1, text.find(b"\n", at) + 1 or len(text)
        span, *_, path = text[line_at:behind].split(maxsplit=5)
        if path.startswith(prefix):
            start, end = (int(part, 16) for part in span.split(b"-"))
            yield start, end, behind
        at = text.find(prefix, behind)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _prefix(folder: Path) -> bytes:
    """How the paths of the files below a folder begin, as the kernel writes them: a path stays on its line."""
    return os.fsencode(folder.resolve()).replace(b"\n", b"\\012") + b"/"
