"""Capture: what a vendor's library prints on the process's own stdout and stderr, where it says what it returns not."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any, TextIO

# A library that floods its log must not fill the memory.
_MAX_BYTES = 1 << 20


@dataclass
class Captured:
    """What was printed.

    Attributes:
        text: The text, once the block has ended.
    """

    text: str = ""

    @property
    def lines(self) -> list[str]:
        """The lines that are not empty."""
        return [line.strip() for line in self.text.splitlines() if line.strip()]


@contextmanager
def captured_output() -> Iterator[Captured]:
    """Keep what is printed inside the block, by C code on file descriptors 1 and 2 and by Python, and show none of it.

    It changes the whole process, so it is for short calls while a model opens.
    """
    found = Captured()
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as file:
        try:
            with ExitStack() as stack:
                for redirected, stream in ((redirect_stdout, sys.stdout), (redirect_stderr, sys.stderr)):
                    forward = _Forward(file)
                    stack.callback(setattr, forward, "to", stream)
                    stack.enter_context(redirected(forward))
                for descriptor in (1, 2):
                    stack.enter_context(_redirected(descriptor, file.fileno()))
                yield found
        finally:
            file.seek(0)
            found.text = file.read(_MAX_BYTES)


class _Forward:
    """A stream that hands on to another one: a logger that was set up inside the block keeps it for good."""

    def __init__(self, to: Any) -> None:
        self.to: TextIO | None = to

    def write(self, text: str) -> int:
        return 0 if self.to is None else self.to.write(text)

    def flush(self) -> None:
        if self.to is not None:
            self.to.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.to, name)


@contextmanager
def _redirected(descriptor: int, to: int) -> Iterator[None]:
    for stream in (sys.__stdout__, sys.__stderr__):
        if stream is not None:
            stream.flush()
    try:
        kept = os.dup(descriptor)
    except OSError:  # a service may run without it
        yield
        return
    try:
        os.dup2(to, descriptor)
        yield
    finally:
        for stream in (sys.__stdout__, sys.__stderr__):
            if stream is not None:
                stream.flush()
        os.dup2(kept, descriptor)
        os.close(kept)
