"""Reading what the kernel tells in /proc and /sys. What cannot be read is unknown (None), never an error."""

from __future__ import annotations

from pathlib import Path


def text(path: Path) -> str | None:
    """The file's text without the line end; None if it is absent, unreadable or empty."""
    try:
        content = path.read_bytes().decode("utf-8", "replace").strip("\0 \n")
    except OSError:
        return None
    return content or None


def integer(path: Path) -> int | None:
    """The file's only number; None if there is none, or it is no number (cgroups write ``max``)."""
    content = text(path)
    try:
        return None if content is None else int(content)
    except ValueError:
        return None
