"""What a tool wrote: new lines as they come, the end of it, and the lines that tell why it failed."""

from __future__ import annotations

import re
from pathlib import Path

_TAIL_BYTES = 1 << 16
_TAIL_LINES = 20
_SHOWN_LINES = 3
_SHOWN_CHARACTERS = 200
_SAID_CHARACTERS = 500
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class NewLines:
    """Reads a file that grows, each whole line once."""

    def __init__(self, path: Path, position: int = 0) -> None:
        self._path = path
        self._position = position

    def read(self) -> list[str]:
        """The lines that were ended since the last call; none while there is no such file."""
        try:
            with self._path.open("rb") as stream:
                stream.seek(self._position)
                whole, newline, _ = stream.read().rpartition(b"\n")
        except FileNotFoundError:
            return []
        self._position += len(whole) + len(newline)
        return [line.strip() for line in whole.decode("utf-8", "replace").splitlines()]


def tail(path: Path, lines: int = _TAIL_LINES) -> tuple[str, ...]:
    """The last lines of a file that hold text, without terminal colours; none if there is no such file."""
    try:
        with path.open("rb") as stream:
            size = stream.seek(0, 2)
            stream.seek(max(0, size - _TAIL_BYTES))
            text = stream.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return ()
    plain = "".join(c if c.isprintable() or c == "\n" else " " for c in _ANSI.sub("", text))
    found = [line.strip() for line in plain.split("\n") if line.strip()]
    return tuple(found[-lines:])


def telling(lines: tuple[str, ...], error_line: str | None) -> tuple[str, ...]:
    """The lines that match the regular expression ``error_line``; none if there is no such expression."""
    return tuple(line for line in lines if error_line is not None and re.search(error_line, line))


def joined(lines: tuple[str, ...]) -> str:
    """A few of the last lines in one."""
    return " | ".join(line[:_SHOWN_CHARACTERS] for line in lines[-_SHOWN_LINES:])


def shortened(text: str) -> str:
    """A text of a tool in one line, its middle left out if it is long: the end tells most."""
    line = " ".join(text.split())
    half = _SAID_CHARACTERS // 2
    return line if len(line) <= _SAID_CHARACTERS else f"{line[:half]} ... {line[-half:]}"
