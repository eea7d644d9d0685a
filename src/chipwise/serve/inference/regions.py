"""Regions: memory of other programs, under the names they registered it by."""

from __future__ import annotations

import mmap
import os
import re
import stat
import threading
from dataclasses import dataclass
from pathlib import Path

from chipwise.errors import InputError, RequestError

# Where Linux shows POSIX shared memory as files.
_FOLDER = Path("/dev/shm")
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_KEY = re.compile(r"/?(?!\.{1,2}$)[A-Za-z0-9_.-]{1,250}")
_MAX_REGIONS = 64


@dataclass(frozen=True)
class Region:
    """A part of a shared memory object.

    Attributes:
        name: What requests call it.
        key: The object's name, as ``shm_open`` has it.
        offset: Where in the object it begins, in bytes.
        byte_size: Its length.
        memory: The object, mapped from its beginning to the region's end.
    """

    name: str
    key: str
    offset: int
    byte_size: int
    memory: mmap.mmap

    def view(self, offset: int, byte_size: int, where: str) -> memoryview:
        """A part of it, which stays mapped as long as the view lives.

        Raises:
            RequestError: It ends outside the region, or the object has been cut shorter.
        """
        if offset + byte_size > self.byte_size:
            raise _wrong(
                f"ends at byte {offset + byte_size} of the region {self.name!r}, which has {self.byte_size}", where
            )
        # Of memory that is gone there would be no error, but a signal that ends the process.
        if self.memory.size() < self.offset + self.byte_size:
            raise _wrong(f"the memory of the region {self.name!r} has been cut shorter", where)
        start = self.offset + offset
        return memoryview(self.memory)[start : start + byte_size]


class Regions:
    """The regions that are registered. Every method may be called from any thread.

    Raises:
        InputError: This system shows no shared memory.
    """

    def __init__(self) -> None:
        if not _FOLDER.is_dir():
            raise InputError(f"there is no {_FOLDER} here", where="--shared-memory", remedy="leave it out")
        self._regions: dict[str, Region] = {}
        self._lock = threading.Lock()

    def register(self, name: str, key: str, offset: int, byte_size: int) -> None:
        """Map a part of a shared memory object.

        Args:
            name: What requests shall call it.
            key: The object's name, with a slash before it or without.
            offset: Where in the object it begins, in bytes.
            byte_size: Its length.

        Raises:
            RequestError: The name is taken or none, or there is no such object, or no such part of it.
        """
        if not _NAME.fullmatch(name):
            raise _wrong(f"is {name[:40]!r}; letters, digits and _.- make a name, at most 128", "name")
        if not _KEY.fullmatch(key):
            raise _wrong(f"is {key[:40]!r}, which is no name of shared memory", "key")
        region = Region(name, key, offset, byte_size, _mapped(key, offset, byte_size))
        with self._lock:
            if name in self._regions:
                raise _wrong(f"a region {name!r} is registered already", "name")
            if len(self._regions) >= _MAX_REGIONS:
                raise _wrong(f"{_MAX_REGIONS} regions are registered, no more are taken", "name")
            self._regions[name] = region

    def unregister(self, name: str | None = None) -> None:
        """Forget a region, or all. Requests on their way go on with it; one that is not there may be named."""
        with self._lock:
            if name is None:
                self._regions.clear()
            else:
                self._regions.pop(name, None)

    def registered(self) -> tuple[Region, ...]:
        """All regions, in the order they came."""
        with self._lock:
            return tuple(self._regions.values())

    def region(self, name: str, where: str) -> Region:
        """A region.

        Raises:
            RequestError: None of this name is registered.
        """
        with self._lock:
            region = self._regions.get(name)
        if region is None:
            raise _wrong(f"no region {name[:40]!r} is registered", where)
        return region


def _mapped(key: str, offset: int, byte_size: int) -> mmap.mmap:
    try:
        # No link is followed, so that what is opened lies in this folder.
        file = os.open(_FOLDER / key.removeprefix("/"), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as e:
        raise _wrong(f"the shared memory {key!r} cannot be opened ({e.strerror})", "key") from e
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise _wrong(f"{key!r} is no shared memory", "key")
        if offset + byte_size > found.st_size:
            raise _wrong(f"the region ends at byte {offset + byte_size}, {key!r} has {found.st_size}", "byte_size")
        return mmap.mmap(file, offset + byte_size)
    finally:
        os.close(file)


def _wrong(what: str, where: str) -> RequestError:
    return RequestError(what, where=where, code="invalid_value", param=where)
