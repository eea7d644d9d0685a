"""ClockCap: holds the accelerator's clock down through devfreq, and lets it go at the end."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress

from chipwise.errors import InputError
from chipwise.telemetry import Tree
from chipwise.telemetry.devfreq import FOLDER, find

_logger = logging.getLogger(__name__)

Write = Callable[[str, str], None]
"""Writes a file below a board's root; raises OSError."""


class ClockCap:
    """The highest clock of a board's NPU, else its GPU. To be closed, which puts back what was there.

    Args:
        tree: The board's files.
        write: Writes into them.

    Raises:
        InputError: The board has no clock that can be set, or this process may not set it.
    """

    def __init__(self, tree: Tree, write: Write) -> None:
        meters = sorted((meter for meter in find(tree) if meter.clocks_hz), key=lambda meter: meter.kind != "npu")
        if not meters:
            raise InputError(
                "no NPU or GPU of this board lists its clocks", where=FOLDER, remedy="serve without --clock-floor"
            )
        self.clocks_hz = meters[0].clocks_hz
        """The clocks there are, upwards."""
        self._path = f"{FOLDER}/{meters[0].device}/max_freq"
        self._write = write
        self._before = tree.read([self._path])[self._path].content
        self._set: float | None = None
        try:
            # Nothing changes, but now it is known whether it could.
            self._write(self._path, self._before or str(self.clocks_hz[-1]))
        except OSError as e:
            raise InputError(
                f"the clock cannot be set ({e.strerror or e})",
                where=self._path,
                remedy="run as a user who may, or serve without --clock-floor",
            ) from e

    def ratios(self, floor: float) -> tuple[float, ...]:
        """The clocks from ``floor`` on over the highest, without that."""
        return tuple(ratio for hz in self.clocks_hz if floor <= (ratio := hz / self.clocks_hz[-1]) < 1)

    def set(self, ratio: float | None) -> None:
        """Hold the clock at a ratio of the highest; None lets it go. A board that refuses is logged and left."""
        if ratio == self._set:
            return
        top = self.clocks_hz[-1]
        content = self._before or str(top)
        if ratio is not None:
            # Ratios come from the table, and back to it only up to rounding.
            content = str(max((hz for hz in self.clocks_hz if hz <= ratio * top + 1), default=self.clocks_hz[0]))
        try:
            self._write(self._path, content)
            self._set = ratio
        except OSError as e:
            _logger.warning("the clock could not be set to %s Hz: %s", content, e)

    def close(self) -> None:
        """Put back what was there."""
        with suppress(OSError):  # a board that is gone needs no clock
            self._write(self._path, self._before or str(self.clocks_hz[-1]))
