"""VirtualFiles: a virtual board's files in memory, with sensors that fail as told."""

from __future__ import annotations

import errno
import os
import threading
from collections import defaultdict

from chipwise.sim.formats import cap_path, files_of
from chipwise.sim.virtual_board import VirtualBoard
from chipwise.telemetry.files import in_order


class VirtualFiles:
    """BoardFiles of a virtual board. Rendered when they are read, so that virtual time costs no input or output.

    Faults are set on paths, e.g. ``files.path_of("npu-thermal")``, and hold until ``heal``.
    """

    def __init__(self, board: VirtualBoard) -> None:
        self._board = board
        self._files = files_of(board)
        self._cap_path = cap_path(board)
        self._folders: dict[str, list[str]] = defaultdict(list)
        for path in self._files:
            while path:
                path, _, name = path.rpartition("/")
                if name not in self._folders[path]:
                    self._folders[path].append(name)
        self._frozen: dict[str, bytes] = {}
        self._errors: dict[str, int] = {}
        self._gates: dict[str, threading.Event] = {}

    @property
    def paths(self) -> tuple[str, ...]:
        """All files."""
        return tuple(self._files)

    def path_of(self, zone: str) -> str:
        """The file with a sensor's temperature."""
        numbers = list(self._board.spec.zones)
        return f"sys/class/thermal/thermal_zone{numbers.index(zone)}/temp"

    def read(self, path: str) -> bytes:
        """What a file says now, or the fault that was set."""
        gate = self._gates.get(path)
        if gate is not None:
            gate.wait()
        number = self._errors.get(path, 0 if path in self._files else errno.ENOENT)
        if number:
            raise OSError(number, os.strerror(number), path)
        return self._frozen.get(path) or self._files[path]().encode()

    def write(self, path: str, content: str) -> None:
        """Write a file as a user can: only the highest clock may be set.

        Raises:
            OSError: The file cannot be written, or the content is no clock.
        """
        if path != self._cap_path:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        try:
            self._board.cap_clock(float(content))
        except ValueError as e:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path) from e

    def names(self, folder: str) -> tuple[str, ...]:
        """The names in a folder."""
        return in_order(self._folders.get(folder, []))

    def freeze(self, path: str) -> None:
        """Let a file say for ever what it says now."""
        self._frozen[path] = self._files[path]().encode()

    def vanish(self, path: str) -> None:
        """Let a file be gone."""
        self._errors[path] = errno.ENOENT

    def fail(self, path: str, number: int) -> None:
        """Let reads of a file fail with an errno."""
        self._errors[path] = number

    def hang(self, path: str) -> None:
        """Let reads of a file hang until it is healed."""
        self._gates[path] = threading.Event()

    def heal(self, path: str) -> None:
        """End a file's faults."""
        self._frozen.pop(path, None)
        self._errors.pop(path, None)
        if (gate := self._gates.pop(path, None)) is not None:
            gate.set()
