"""LiveFiles: the machine's own root, where programs that print sensors stand in for files."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from collections import deque
from contextlib import suppress
from pathlib import Path

from chipwise.telemetry.files import COMMANDS, FolderFiles

# File below ``commands`` -> the program. A process a second would cost more than all other meters together.
_ONE_SHOT = {
    "vcgencmd-measure_temp.txt": ("vcgencmd", "measure_temp"),
    "vcgencmd-get_throttled.txt": ("vcgencmd", "get_throttled"),
}
_ONE_SHOT_EVERY_S = 10.0
_PROGRAM_TIMEOUT_S = 2.0
_TEGRASTATS = "tegrastats.txt"
# The program's own clock: milliseconds between two lines.
_TEGRASTATS_COMMAND = ("tegrastats", "--interval", "1000")
# A line older than this says nothing about now.
_STALE_S = 5.0


class LiveFiles:
    """The files of the machine this runs on, and what its sensor programs print. To be closed."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._files = FolderFiles(root)
        self._printed: dict[str, tuple[float, bytes]] = {}
        self._stream = _Stream(_TEGRASTATS_COMMAND) if shutil.which(_TEGRASTATS_COMMAND[0]) else None

    def read(self, path: str) -> bytes:
        """A file's content, or a program's output."""
        folder, _, name = path.rpartition("/")
        if folder != COMMANDS:
            return self._files.read(path)
        if name == _TEGRASTATS and self._stream is not None:
            return self._stream.line()
        if name not in _ONE_SHOT:
            raise FileNotFoundError(path)
        return self._one_shot(name)

    def names(self, folder: str) -> tuple[str, ...]:
        """The names in a folder, or the programs there are."""
        if folder != COMMANDS:
            return self._files.names(folder)
        found = [name for name, command in _ONE_SHOT.items() if shutil.which(command[0])]
        return tuple(sorted([*found, _TEGRASTATS] if self._stream else found))

    def close(self) -> None:
        """End the programs that run."""
        if self._stream is not None:
            self._stream.close()

    def _one_shot(self, name: str) -> bytes:
        at_s, output = self._printed.get(name, (-_ONE_SHOT_EVERY_S, b""))
        if time.monotonic() - at_s >= _ONE_SHOT_EVERY_S:
            try:
                done = subprocess.run(_ONE_SHOT[name], capture_output=True, timeout=_PROGRAM_TIMEOUT_S, check=True)
            except subprocess.SubprocessError as e:
                raise OSError(f"{' '.join(_ONE_SHOT[name])}: {e}") from e
            output = done.stdout
            self._printed[name] = time.monotonic(), output
        return output


class _Stream:
    """A program that prints a line a second; the latest is kept."""

    def __init__(self, command: tuple[str, ...]) -> None:
        self._command = command
        self._lines: deque[tuple[float, bytes]] = deque(maxlen=1)
        self._first = threading.Event()
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self._thread = threading.Thread(target=self._read, name=f"chipwise-{command[0]}", daemon=True)
        self._thread.start()
        # So that whoever asks only once gets an answer.
        self._first.wait(_PROGRAM_TIMEOUT_S)

    def line(self) -> bytes:
        """The latest line.

        Raises:
            OSError: There is none, or it is old.
        """
        if not self._lines:
            raise OSError(f"{self._command[0]} has printed nothing")
        at_s, line = self._lines[0]
        if (age_s := time.monotonic() - at_s) > _STALE_S:
            raise OSError(f"{self._command[0]} has printed nothing for {age_s:.0f} s")
        return line

    def close(self) -> None:
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_PROGRAM_TIMEOUT_S)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._thread.join(_PROGRAM_TIMEOUT_S)
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _read(self) -> None:
        if self._process.stdout is None:
            return
        for line in self._process.stdout:
            self._lines.append((time.monotonic(), line))
            self._first.set()
        # One that has ended prints none.
        self._first.set()
