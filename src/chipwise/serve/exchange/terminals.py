"""Terminals: those that a process was started in, and whether they are still there."""

from __future__ import annotations

import os
import termios


class Terminals:
    """The terminals that standard input, output and errors are now."""

    def __init__(self) -> None:
        self._fds = tuple(fd for fd in range(3) if os.isatty(fd))

    @property
    def any_gone(self) -> bool:
        """Whether one is there no more: then SIGHUP says so, and asks for nothing."""
        return any(_is_gone(fd) for fd in self._fds)


def _is_gone(fd: int) -> bool:
    try:
        termios.tcgetattr(fd)
    except termios.error:
        return True
    return False
