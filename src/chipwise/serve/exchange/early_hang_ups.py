"""EarlyHangUps: what SIGHUP says to a server that is not ready yet."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from chipwise.serve.exchange.terminals import Terminals


class EarlyHangUps:
    """Notes SIGHUP until the server is ready; when it says that the terminal is gone, that is as Ctrl-C."""

    def __init__(self) -> None:
        self._terminals = Terminals()
        self._noted = self._over = False

    def note(self, number: int, frame: FrameType | None) -> None:
        """Take the signal.

        Raises:
            KeyboardInterrupt: The terminal is gone.
        """
        if self._over:
            return
        if self._terminals.any_gone:
            signal.default_int_handler(number, frame)
        self._noted = True

    def end(self) -> bool:
        """Note no more; whether the signal came, so that what was read before may be old by now."""
        self._over = True
        return self._noted


@contextmanager
def early_hang_ups() -> Iterator[EarlyHangUps]:
    """Keep SIGHUP from ending a process that is about to serve. Whoever has it ignored, as nohup does, keeps that."""
    early, before = EarlyHangUps(), signal.getsignal(signal.SIGHUP)
    if threading.current_thread() is not threading.main_thread() or before is signal.SIG_IGN:
        yield early
        return
    signal.signal(signal.SIGHUP, early.note)
    try:
        yield early
    finally:
        signal.signal(signal.SIGHUP, signal.SIG_DFL if before is None else before)
