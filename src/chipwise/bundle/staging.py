"""Staging: a hidden folder beside its final place, which becomes visible whole or not at all."""

from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import suppress
from pathlib import Path

from chipwise.errors import OutputError
from chipwise.files import sync, writing


class Staging:
    """A folder in the making.

    Its name is fixed by the final one, and its maker holds a lock on it, so the next build into the same place
    can tell a running build (refused) from one whose power was cut (cleared away).
    """

    def __init__(self, final: Path, *, named: Path | None = None) -> None:
        """Stage a folder.

        Args:
            final: Where it goes.
            named: What errors call it; None for ``final``.
        """
        # abspath and not resolve: a link at the final place must stay visible as one.
        self.final = Path(os.path.abspath(final))
        self.path = self.final.with_name(f".{self.final.name}.part")
        self._old = self.final.with_name(f".{self.final.name}.old")
        self._named = self.final if named is None else named
        self._lock: int | None = None
        self._made_parents: list[Path] = []

    def open(self) -> None:
        """Make the folder, empty.

        Raises:
            OutputError: The place is not writable, or another build is at work there.
        """
        try:
            with writing(self._named):
                self._make_parents()
                self._lock = self._acquire()
                self._restore()
                for leftover in self.path.iterdir():
                    shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
        except BaseException:
            self.discard()
            raise

    def publish(self) -> None:
        """Move the folder to its final place; what lay there is kept until this is done, then removed.

        Raises:
            OutputError: The disk does not take it; what lay there before lies there still.
        """
        with writing(self._named):
            sync(self.path)
            try:
                if self.final.exists():
                    self.final.rename(self._old)
                self.path.rename(self.final)
            except BaseException:
                self._restore()
                raise
            sync(self.final.parent)
            shutil.rmtree(self._old, ignore_errors=True)
        self._made_parents.clear()
        self._release()

    def discard(self) -> None:
        """Remove the folder, and the parents that were made for it. Does nothing after ``publish``."""
        if self._lock is not None:
            shutil.rmtree(self.path, ignore_errors=True)
        for parent in reversed(self._made_parents):
            with suppress(OSError):  # something else lies in it by now
                parent.rmdir()
        self._made_parents.clear()
        self._release()

    def _make_parents(self) -> None:
        for parent in reversed(self.final.parents):
            if not parent.exists():
                parent.mkdir()
                self._made_parents.append(parent)

    def _acquire(self) -> int:
        while True:
            self.path.mkdir(exist_ok=True)
            lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as e:
                os.close(lock)
                raise OutputError(
                    "another build is writing there",
                    where=str(self._named),
                    remedy="wait for it or choose another folder",
                ) from e
            # The build that held the lock may have moved or removed the folder between mkdir and flock.
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(lock), self.path.stat()):
                    return lock
            os.close(lock)

    def _restore(self) -> None:
        # Power was cut between the two renames of publish: the old one goes back to its place.
        if self._old.exists() and not self.final.exists():
            self._old.rename(self.final)
        shutil.rmtree(self._old, ignore_errors=True)

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
