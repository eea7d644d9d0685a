"""RecordingSession: a session whose steps are written down as it takes them."""

from __future__ import annotations

from chipwise.engine import Batch, Session
from chipwise.engine.batch import StepOutput
from chipwise.verify.reference.record import RecordWriter


class RecordingSession:
    """A session that is recorded.

    Writing that fails ends the recording, not the run.

    Args:
        session: What answers.
        writer: What is told of each step.

    Attributes:
        failure: Why nothing more is written; None while all is.
    """

    def __init__(self, session: Session, writer: RecordWriter) -> None:
        self._session, self._writer = session, writer
        self.failure: OSError | None = None

    @property
    def n_slots(self) -> int:
        """The session's."""
        return self._session.n_slots

    @property
    def max_context(self) -> int:
        """The session's."""
        return self._session.max_context

    @property
    def vocab_size(self) -> int:
        """The session's."""
        return self._session.vocab_size

    @property
    def max_step_tokens(self) -> int:
        """The session's."""
        return self._session.max_step_tokens

    def step(self, batch: Batch) -> StepOutput:
        """Run one step and write it down.

        Raises:
            EngineError: The runtime failed.
        """
        out = self._session.step(batch)
        if self.failure is None:
            try:
                self._writer.add(batch, out.logits)
            except OSError as e:
                self.failure = e
        return out

    def move_slot(self, source: int, target: int, tokens: int) -> None:
        """Copy a slot, as the session does."""
        self._session.move_slot(source, target, tokens)

    def close(self) -> None:
        """Close the session."""
        self._session.close()
