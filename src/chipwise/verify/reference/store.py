"""ReferenceStore: the folder of records, bounded in size, shared by all who run at once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO

from chipwise.errors import RecordError
from chipwise.files import free_bytes
from chipwise.target.host.speed import cache_folder
from chipwise.verify.reference.record import OpenRecord

DEFAULT_MAX_BYTES = 2 << 30
"""What all records together may take, if a quarter of the disk's free space is not less."""

_SUFFIX = ".ref"
_PART = ".part"
# A part older than this belongs to a process that was killed.
_ABANDONED_S = 24 * 3600.0


class ReferenceStore:
    """Records by key. What cannot be read or written is as if it were not there.

    Args:
        folder: Where they lie; made when the first is kept.
        max_bytes: What all of them may take; the one that was not used for longest goes first.
    """

    def __init__(self, folder: Path, *, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self.folder = folder
        self._max_bytes = max_bytes

    @classmethod
    def of_user(cls) -> ReferenceStore:
        """The user's: CHIPWISE_CACHE, else the cache folder that XDG names."""
        return cls(cache_folder() / "references")

    @property
    def max_bytes(self) -> int:
        """What may be taken now."""
        return min(self._max_bytes, free_bytes(self.folder) // 4 + self._taken())

    def find(self, key: str) -> OpenRecord | None:
        """The record of a key; None if there is none. One that is damaged is removed."""
        path = self._path(key)
        try:
            found = OpenRecord(path)
        except RecordError:
            self.discard(key)
            return None
        except OSError:
            return None
        with suppress(OSError):  # a cache that may only be read is one, too
            path.touch()
        return found

    def discard(self, key: str) -> None:
        """Remove the record of a key, if there is one."""
        with suppress(OSError):
            self._path(key).unlink(missing_ok=True)

    @contextmanager
    def part(self, key: str) -> Iterator[IO[bytes]]:
        """A file to write a record to; it goes at the end unless it was kept.

        Raises:
            OSError: The folder cannot be written.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=self.folder, prefix=f"{key}.", suffix=_PART, delete=False) as stream:
            try:
                yield stream
            finally:
                with suppress(OSError):
                    Path(stream.name).unlink(missing_ok=True)

    def keep(self, key: str, part: IO[bytes]) -> None:
        """Give a finished part its name, and make room.

        Raises:
            OSError: The folder cannot be written.
        """
        Path(part.name).replace(self._path(key))
        self._make_room(key)

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}{_SUFFIX}"

    def _taken(self) -> int:
        return sum(size for _, size, _ in self._entries(_SUFFIX))

    def _entries(self, suffix: str) -> list[tuple[float, int, Path]]:
        """Time of last use, size and path of each."""
        found = []
        for path in self.folder.glob(f"*{suffix}"):
            with suppress(OSError):  # another process removed it
                stat = path.stat()
                found.append((stat.st_mtime, stat.st_size, path))
        return sorted(found)

    def _make_room(self, key: str) -> None:
        for last_used, _, path in self._entries(_PART):
            if time.time() - last_used > _ABANDONED_S:
                with suppress(OSError):
                    path.unlink(missing_ok=True)
        entries = self._entries(_SUFFIX)
        over = sum(size for _, size, _ in entries) - self.max_bytes
        for _, size, path in entries:
            if over > 0 and path != self._path(key):
                with suppress(OSError):
                    path.unlink(missing_ok=True)
                    over -= size
