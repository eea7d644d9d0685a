"""Opening a board: the machine itself, or a folder that stands for its root."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chipwise.telemetry.board_meters import BoardMeters
from chipwise.telemetry.files import BoardFiles, FolderFiles
from chipwise.telemetry.programs import LiveFiles
from chipwise.telemetry.tree import Tree


@contextmanager
def open_files(root: Path) -> Iterator[BoardFiles]:
    """A board's files. Below ``/`` its sensor programs run too, until the context ends.

    Raises:
        InputError: There is no such folder, or nothing of a board in it.
    """
    if root != Path("/"):
        yield FolderFiles(root)
        return
    files = LiveFiles(root)
    try:
        yield files
    finally:
        files.close()


@contextmanager
def open_meters(root: Path) -> Iterator[BoardMeters]:
    """The meters of a board.

    Raises:
        InputError: As for `open_files`.
    """
    with open_files(root) as files:
        yield BoardMeters(Tree(files))
