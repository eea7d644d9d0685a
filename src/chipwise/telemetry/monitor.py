"""BoardMonitor: reads a board's state again and again, in a thread of its own."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from chipwise.telemetry.board_meters import BoardMeters
from chipwise.telemetry.state import HardwareState

_logger = logging.getLogger(__name__)

INTERVAL_S = 1.0
"""A second between two samples: heat moves slower, and it costs less than half a percent of a core."""

_FIND_EVERY_S = 60.0


class BoardMonitor:
    """The latest state of a board, at a rate.

    Args:
        meters: What is read.
        on_state: Called with every state, from the monitor's thread.
        interval_s: Seconds from one sample to the next.
        clock: The time in seconds.
    """

    def __init__(
        self,
        meters: BoardMeters,
        on_state: Callable[[HardwareState], None] = lambda state: None,
        *,
        interval_s: float = INTERVAL_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._meters = meters
        self._on_state = on_state
        self._interval_s = interval_s
        self._clock = clock
        self._found_s = clock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="chipwise-board", daemon=True)
        self.state = meters.read(clock())
        """The latest state."""

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, timeout_s: float = 5.0) -> bool:
        """End the thread; False if it did not end in time."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def sample(self) -> HardwareState:
        """Read the state now, and tell it. The thread calls this; without a thread, anybody may."""
        now_s = self._clock()
        if now_s - self._found_s >= _FIND_EVERY_S:
            self._meters.find()
            self._found_s = now_s
        self.state = self._meters.read(now_s)
        self._on_state(self.state)
        return self.state

    def _run(self) -> None:
        while not self._stopping.wait(self._interval_s):
            try:
                self.sample()
            except Exception:
                # Meters turn what can go wrong into unknown values; anything else is a fault of chipwise's own.
                _logger.exception("reading the board failed; it is tried again")
