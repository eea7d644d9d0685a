"""Tree: reads a board's files with patience that ends, since an offline sensor may let a read hang for ever."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from chipwise.telemetry.files import BoardFiles

_TIMEOUT_S = 0.25
# Threads that may hang in the kernel at once; beyond it nothing is read until one comes back.
_MOST_HANGING = 8


@dataclass(frozen=True)
class Text:
    """What a file said, or why it did not.

    Attributes:
        content: The text without surrounding white space; None if it could not be read.
        why: Why not; empty if it could.
    """

    content: str | None
    why: str = ""


class _Round:
    """One thread that reads files in order. Given up, it ends with the read it hangs in."""

    def __init__(self, files: BoardFiles, paths: Sequence[str]) -> None:
        self.texts: dict[str, Text] = {}
        self.paths = paths
        self._files = files
        self.given_up = False
        self.since_s = time.monotonic()
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._run, name="chipwise-meters", daemon=True)

    def _run(self) -> None:
        for path in self.paths:
            self.since_s = time.monotonic()
            text = read_text(self._files, path)
            if self.given_up:
                break
            self.texts[path] = text
        self.done.set()

    def wait(self, timeout_s: float) -> bool:
        """Wait until all is read; False if one read took longer than that."""
        while not self.done.wait(max(0.001, self.since_s + timeout_s - time.monotonic())):
            if time.monotonic() - self.since_s >= timeout_s:
                return self.done.is_set()
        return True


class Tree:
    """A board's files, read in a thread that is left behind when a read hangs. For one thread at a time.

    A file that hangs is not read again until its read has come back, so at most 8 threads hang, and each ends with
    its read.

    Args:
        files: The files.
        timeout_s: The patience for one read; None reads in the caller's thread, for files that cannot hang.
    """

    def __init__(self, files: BoardFiles, timeout_s: float | None = _TIMEOUT_S) -> None:
        self._files = files
        self._timeout_s = timeout_s
        self._hanging: dict[str, _Round] = {}

    def names(self, folder: str) -> tuple[str, ...]:
        """The names in a folder."""
        return self._files.names(folder)

    def read(self, paths: Iterable[str]) -> dict[str, Text]:
        """What each of these files says now."""
        wanted = list(dict.fromkeys(paths))
        if self._timeout_s is None:
            return {path: read_text(self._files, path) for path in wanted}
        self._hanging = {path: one for path, one in self._hanging.items() if not one.done.is_set()}
        texts = {path: Text(None, "an earlier read of it still hangs") for path in wanted if path in self._hanging}
        left = [path for path in wanted if path not in texts]
        while left:
            if len(self._hanging) >= _MOST_HANGING:
                why = f"not read: reads of {len(self._hanging)} other files hang"
                return texts | dict.fromkeys(left, Text(None, why))
            texts |= self._read_round(left, self._timeout_s)
            left = [path for path in left if path not in texts]
        return texts

    def _read_round(self, paths: Sequence[str], timeout_s: float) -> dict[str, Text]:
        one = _Round(self._files, paths)
        one.thread.start()
        if one.wait(timeout_s):
            return one.texts
        one.given_up = True
        # A copy: the thread may just have come back and be writing its last line.
        texts = dict(one.texts)
        stuck = next((path for path in paths if path not in texts), None)
        if stuck is not None:
            self._hanging[stuck] = one
            texts[stuck] = Text(None, f"the read hangs (given up after {timeout_s:g} s)")
        return texts


def read_text(files: BoardFiles, path: str) -> Text:
    """What one file says, in the caller's thread."""
    try:
        content = files.read(path).decode("utf-8", "replace").strip("\0 \t\r\n")
    except FileNotFoundError:
        return Text(None, "not there")
    except PermissionError:
        return Text(None, "permission denied (root may read it)")
    except OSError as e:
        return Text(None, os.strerror(e.errno) if e.errno else str(e) or "cannot be read")
    return Text(content) if content else Text(None, "is empty")
