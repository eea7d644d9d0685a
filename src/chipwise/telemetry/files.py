"""BoardFiles: where meters read, be it the machine's root, a recording of one, or a virtual board."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

from chipwise.errors import InputError

COMMANDS = "commands"
"""Folder of a recording with what programs printed, one file ``NAME.txt`` a program."""

# A file of the kernel is a page at most; of a log only the end counts.
_MOST_BYTES = 1 << 16

_REMEDY = "give the folder that holds proc and sys: /, or a recording of a board"


class BoardFiles(Protocol):
    """A tree of files with the paths of a Linux root, without the leading slash."""

    def read(self, path: str) -> bytes:
        """The end of a file, 64 KiB at most.

        Raises:
            OSError: It is not there, or the driver behind it refuses. A read may also hang.
        """
        ...

    def names(self, folder: str) -> tuple[str, ...]:
        """The names in a folder, sorted as numbers where they end in one; empty if there is no such folder."""
        ...


class FolderFiles:
    """The files below a folder.

    Args:
        root: ``/``, or a folder that stands for it.

    Raises:
        InputError: There is no such folder, or nothing of a board in it.
    """

    def __init__(self, root: Path) -> None:
        where = str(root)
        if not root.is_dir():
            raise InputError(
                "is no folder" if root.exists() else "there is no such folder", where=where, remedy=_REMEDY
            )
        if not any((root / name).is_dir() for name in ("proc", "sys", COMMANDS)):
            raise InputError(f"holds none of proc, sys and {COMMANDS}", where=where, remedy=_REMEDY)
        self.root = root
        self._base = f"{where.rstrip('/')}/"

    def read(self, path: str) -> bytes:
        """The end of a file, 64 KiB at most; see `BoardFiles`."""
        handle = os.open(self._base + path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            # Files of the kernel have no size; only a recorded log can be long.
            if (size := os.fstat(handle).st_size) > _MOST_BYTES:
                os.lseek(handle, size - _MOST_BYTES, os.SEEK_SET)
            return os.read(handle, _MOST_BYTES)
        finally:
            os.close(handle)

    def names(self, folder: str) -> tuple[str, ...]:
        """The names in a folder; see `BoardFiles`."""
        try:
            return in_order(os.listdir(self._base + folder))
        except OSError:
            return ()


def in_order(names: list[str]) -> tuple[str, ...]:
    """Names sorted so that zone10 comes after zone9."""
    return tuple(sorted(names, key=lambda name: (name.rstrip("0123456789"), len(name), name)))
