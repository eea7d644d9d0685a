"""Rehearsal: real sessions on a virtual board, which they heat and by whose clock they are slowed down."""

from __future__ import annotations

import threading
import time
from typing import Any

from chipwise.engine.batch import Batch, StepOutput
from chipwise.engine.session import Session
from chipwise.sim import Activity, VirtualBoard

# Assumed: a decode reads all weights, however few rows it has; each row adds its part of the arithmetic.
_DECODE_LOAD, _ROW_LOAD = 0.5, 0.125
_CPU_SHARE = 0.2


class Rehearsal:
    """A virtual board under the sessions of a server.

    What is slower on a virtual board than on this machine, or faster, is not known: at the highest clock a step
    takes what it takes here.
    """

    def __init__(self, board: VirtualBoard) -> None:
        self._board = board
        self._lock = threading.Lock()
        self._busy_s = 0.0
        self._asked_s = time.monotonic()

    def wrap(self, session: Session) -> Session:
        """A session on the board: every step counts as load, and takes as long as the clock is low."""
        return RehearsedSession(session, self)

    def step(self, session: Session, batch: Batch) -> StepOutput:
        """Run one step."""
        started_s = time.monotonic()
        try:
            return session.step(batch)
        finally:
            took_s = time.monotonic() - started_s
            longer_s = took_s * (1 / self._board.clock_ratio - 1)
            if longer_s > 0:
                time.sleep(longer_s)
            with self._lock:
                self._busy_s += (took_s + longer_s) * load_of(batch)

    def activity(self) -> Activity:
        """What the board has done since this was asked last."""
        with self._lock:
            now_s = time.monotonic()
            busy = min(1.0, self._busy_s / max(1e-6, now_s - self._asked_s))
            self._busy_s, self._asked_s = 0.0, now_s
        return Activity(busy, _CPU_SHARE * busy)


class RehearsedSession:
    """A session on a virtual board. Everything but its steps is the session's own."""

    def __init__(self, session: Session, rehearsal: Rehearsal) -> None:
        self._session = session
        self._rehearsal = rehearsal

    def __getattr__(self, name: str) -> Any:
        # Also what only some sessions have.
        return getattr(self._session, name)

    def step(self, batch: Batch) -> StepOutput:
        """Run one step."""
        return self._rehearsal.step(self._session, batch)


def load_of(batch: Batch) -> float:
    """How much of the accelerator a step keeps busy, 0 to 1: assumed, not measured."""
    return 1.0 if batch.new_tokens > 1 else min(1.0, _DECODE_LOAD + _ROW_LOAD * batch.rows)
