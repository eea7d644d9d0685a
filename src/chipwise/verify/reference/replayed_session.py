"""ReplayedSession: a session that gives the logits of a record back, step by step."""

from __future__ import annotations

import numpy as np

from chipwise.engine import Batch
from chipwise.engine.batch import StepOutput
from chipwise.errors import RecordError
from chipwise.verify.reference.record import Record, asked


class ReplayedSession:
    """What a recorded session answered, to the same steps in the same order; nothing is computed.

    Args:
        record: The record.
    """

    def __init__(self, record: Record) -> None:
        self._record = record
        self._next = 0

    @property
    def n_slots(self) -> int:
        """The recorded session's."""
        return self._record.n_slots

    @property
    def max_context(self) -> int:
        """The recorded session's."""
        return self._record.max_context

    @property
    def vocab_size(self) -> int:
        """The recorded session's."""
        return self._record.vocab_size

    @property
    def max_step_tokens(self) -> int:
        """The recorded session's."""
        return self._record.max_step_tokens

    def step(self, batch: Batch) -> StepOutput:
        """The logits that were recorded for this step.

        Raises:
            RecordError: Another step, or none, was taken here when it was recorded.
        """
        steps = self._record.steps
        if self._next >= len(steps) or steps[self._next].asked != asked(batch):
            raise RecordError(f"step {self._next + 1} is another than was recorded", remedy="run again with --no-cache")
        step = steps[self._next]
        self._next += 1
        return StepOutput(np.asarray(self._record.rows[list(step.rows)]).reshape(step.shape))

    def move_slot(self, source: int, target: int, tokens: int) -> None:
        """Nothing: what slots held is in the logits that were recorded."""

    def close(self) -> None:
        """Nothing: the record is closed by whoever opened it."""
