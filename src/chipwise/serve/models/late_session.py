"""LateSession: a session that is opened when it is first needed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from chipwise.engine.batch import Batch, StepOutput
from chipwise.engine.session import Session, saves_slots
from chipwise.errors import ChipwiseError, EngineError

# Whatever engine it will be, a prompt is not fed in much larger pieces.
_MAX_STEP_TOKENS = 512

_logger = logging.getLogger(__name__)


class LateSession:
    """Opens a session at the first step, in the thread that makes it; until then it takes no memory.

    Args:
        create: Opens it.
        n_slots: Slots it will have.
        max_context: Tokens a slot will hold.
        vocab_size: Length of its rows of logits.
    """

    def __init__(self, create: Callable[[], Session], *, n_slots: int, max_context: int, vocab_size: int) -> None:
        self.n_slots: Final = n_slots
        self.max_context: Final = max_context
        self.vocab_size: Final = vocab_size
        self.max_step_tokens: Final = min(_MAX_STEP_TOKENS, max_context)
        self._create = create
        self._session: Session | None = None

    @property
    def opened(self) -> bool:
        """Whether it holds a session."""
        return self._session is not None

    def open(self, *, whole: bool = False) -> Session:
        """The session; opened if it is not.

        Args:
            whole: Whether all memory it will need is taken from the system now, not when it is first used.

        Raises:
            EngineError: It cannot be opened. The next call tries again.
        """
        if self._session is None:
            started_s = time.monotonic()
            try:
                session = self._create()
            except ChipwiseError as e:
                raise EngineError(f"the fallback cannot be opened ({e.what})", where=e.where, remedy=e.remedy) from e
            if session.vocab_size != self.vocab_size:
                found = session.vocab_size
                session.close()
                raise EngineError(f"the fallback has {found} logits a row, the engine {self.vocab_size}")
            if whole:
                try:
                    _take_memory(session)
                except BaseException:
                    session.close()
                    raise
            self._session = session
            _logger.info("the fallback is open after %.1f s", time.monotonic() - started_s)
        return self._session

    def step(self, batch: Batch) -> StepOutput:
        """Run one step; in pieces if it brings more tokens than the session takes."""
        session = self.open()
        width, start = session.max_step_tokens, 0
        while batch.logits == "last" and batch.new_tokens - start > width:
            piece = batch.tokens[:, start : start + width]
            session.step(replace(batch, tokens=piece, past=batch.past + start))
            start += width
        return session.step(
            batch if not start else replace(batch, tokens=batch.tokens[:, start:], past=batch.past + start)
        )

    def move_slot(self, source: int, target: int, tokens: int) -> None:
        """Copy the first ``tokens`` tokens of one slot's KV over another's."""
        self.open().move_slot(source, target, tokens)

    def close(self) -> None:
        """Give all memory back."""
        if self._session is not None:
            self._session.close()
            self._session = None


def _take_memory(session: Session) -> None:
    """Write all slots once, and run the longest and the widest step.

    What was never used takes no memory of the system, and might find none when it is needed.

    Raises:
        EngineError: The engine failed.
    """
    if saves_slots(session):
        nothing = session.save_slot(0, session.max_context)
        for slot in range(session.n_slots):
            session.load_slot(slot, nothing)
    # One slot's worth of tokens 0, then one more for each slot.
    longest = min(session.max_step_tokens, session.max_context - 1)
    session.step(Batch(0, np.zeros((1, longest), np.int64), np.zeros(1, np.int64)))
    session.step(Batch(0, np.zeros((session.n_slots, 1), np.int64), np.full(session.n_slots, longest)))
