"""Where a command may write, settled before it works for minutes."""

from __future__ import annotations

import os
from pathlib import Path

from chipwise.bundle.layout import MANIFEST
from chipwise.errors import OutputError


def refuse_output(path: Path) -> None:
    """Refuse a file or folder that could not be written, or that would change a bundle.

    Args:
        path: What shall be written; it and folders above it need not be there yet.

    Raises:
        OutputError: It lies in a bundle, whose every byte is digested, or where nothing can be written.
    """
    place = path.absolute()
    for folder in (place, *place.parents):
        if (folder / MANIFEST).is_file():
            raise OutputError(
                "lies in a bundle, which a file more or another would break",
                where=str(path),
                remedy="give a folder of its own",
            )
    above = next(folder for folder in (place, *place.parents) if folder.exists())
    if above != place and not above.is_dir():
        raise OutputError(f"{above} is a file, no folder", where=str(path), remedy="give another place")
    if not os.access(above, os.W_OK):
        raise OutputError(f"{above} may not be written", where=str(path), remedy="give another place")


def refuse_folder(path: Path) -> None:
    """Refuse a file's place where a folder lies: it would show after the other files were written.

    Raises:
        OutputError: It is a folder.
    """
    if path.is_dir():
        raise OutputError("is a folder", where=str(path), remedy="move it, or give another place")
