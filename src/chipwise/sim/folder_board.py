"""FolderBoard: a virtual board's files written into a folder, in real or virtual time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from chipwise.files import writing
from chipwise.sim.formats import cap_path, files_of
from chipwise.sim.virtual_board import IDLE, Activity, VirtualBoard
from chipwise.telemetry.numbers import parse_integer

# Real time: how often the files are written.
_INTERVAL_S = 0.5


class FolderBoard:
    """Keeps a folder as the root of a virtual board. A clock written into its ``max_freq`` is obeyed.

    A file is replaced as a whole, as the kernel gives a file whole; a constant one is written once.

    Raises:
        OutputError: The folder cannot be written.
    """

    def __init__(self, board: VirtualBoard, folder: Path) -> None:
        self.board = board
        self.folder = folder
        self._cap = folder / cap_path(board)
        self._said: dict[str, str] = {}
        self.write()

    def write(self) -> None:
        """Write what has changed.

        Raises:
            OutputError: The folder cannot be written.
        """
        with writing(self.folder):
            for path, text_of in files_of(self.board).items():
                text = text_of()
                if self._said.get(path) != text:
                    self._put(self.folder / path, text)
                    self._said[path] = text

    def advance(self, duration_s: float, activity: Activity = IDLE) -> None:
        """Let time pass, after a look at the clock the user allows, and write what has changed."""
        self.obey()
        self.board.advance(duration_s, activity)
        self.write()

    def obey(self) -> None:
        """Take the clock that a user has written into ``max_freq``."""
        with writing(self._cap):
            hz = parse_integer(self._cap.read_text("utf-8").strip())
        if hz is not None:
            self.board.cap_clock(hz)

    def _put(self, path: Path, text: str) -> None:
        # Not synced as results are: this tree is as short-lived as the kernel's own.
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.part")
        part.write_text(text, "utf-8")
        part.replace(path)


class Advancing(Protocol):
    """What time can pass for: a `VirtualBoard`, or one in a folder."""

    def advance(self, duration_s: float, activity: Activity) -> None:
        """Let time pass with the same activity."""
        ...


class RealTime:
    """Lets a virtual board live in real time, in a thread of its own.

    Args:
        board: The board. Others may read it meanwhile.
        activity: What the board does now; asked at every turn.
        interval_s: Seconds between two turns.
    """

    def __init__(self, board: Advancing, activity: Callable[[], Activity], *, interval_s: float = _INTERVAL_S) -> None:
        self._board = board
        self._activity = activity
        self._interval_s = interval_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="chipwise-virtual-board", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End it."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        last_s = time.monotonic()
        while not self._stopping.wait(self._interval_s):
            now_s = time.monotonic()
            self._board.advance(now_s - last_s, self._activity())
            last_s = now_s
