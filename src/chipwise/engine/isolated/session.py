"""IsolatedSession: a session whose engine runs in a process that is replaced when it is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from chipwise.engine.batch import Batch, StepOutput
from chipwise.engine.isolated.keeper import Keeper
from chipwise.engine.isolated.remote import RemoteSession, SessionFacts
from chipwise.engine.known_fault import Symptom
from chipwise.engine.restarts import EngineState
from chipwise.errors import EngineError, EngineLostError


class IsolatedSession:
    """What its owner sees of an engine in another process; see ``Restarts``.

    Args:
        keeper: Keeps the process up. It is closed with the session.
        facts: What the engine's session says of itself.
    """

    def __init__(self, keeper: Keeper[RemoteSession], facts: SessionFacts) -> None:
        self.n_slots: Final = facts.n_slots
        self.max_context: Final = facts.max_context
        self.vocab_size: Final = facts.vocab_size
        self.max_step_tokens: Final = facts.max_step_tokens
        self.whole_tokens: Final = facts.whole_tokens
        self.max_draft_tokens: Final = facts.max_draft_tokens
        self.max_draft_rows: Final = facts.max_draft_rows
        self._keeper = keeper
        self._look: Callable[[], None] | None = None
        self._remote: RemoteSession | None = keeper.current()
        self._closed = False

    @property
    def state(self) -> EngineState:
        """See ``Restarts.state``."""
        return self._keeper.state

    @property
    def restarts(self) -> int:
        """See ``Restarts.restarts``."""
        return self._keeper.restarts

    @property
    def trouble(self) -> str:
        """See ``Restarts.trouble``."""
        return self._keeper.trouble

    @property
    def pid(self) -> int | None:
        """The process that holds the slots; None if it is lost."""
        remote = self._remote
        return None if remote is None or not remote.process.alive else remote.process.pid

    def renew(self) -> EngineLostError | None:
        """See ``Restarts.renew``."""
        remote = self._remote
        if remote is None or remote.process.alive:
            return None
        loss = remote.process.loss()
        remote.process.dispose()
        self._remote = None
        return loss

    def while_waiting(self, look: Callable[[], None]) -> None:
        """See ``Restarts.while_waiting``."""
        self._look = look
        if self._remote is not None:
            self._remote.while_waiting(look)

    def step(self, batch: Batch) -> StepOutput:
        """See ``Session.step``.

        Raises:
            EngineLostError: The process is lost, and with it what all slots held; see ``Restarts``.
        """
        return self._process().step(batch)

    def move_slot(self, source: int, target: int, tokens: int) -> None:
        """See ``Session.move_slot``."""
        self._process().move_slot(source, target, tokens)

    def explain(self, symptom: Symptom) -> str | None:
        """See ``KnowsFaults``; nothing is known while the process is lost."""
        try:
            return self._process().explain(symptom)
        except EngineLostError:
            return None

    def close(self) -> None:
        """End the process and give all memory back."""
        self._closed = True
        self._keeper.close()
        if self._remote is not None:
            self._remote.process.dispose()
            self._remote = None

    def _process(self) -> RemoteSession:
        if self._closed:
            raise EngineError("the session is closed")
        if self._remote is None:
            self._remote = self._keeper.current()
            self._remote.while_waiting(self._look)
        return self._remote


class SavingIsolatedSession(IsolatedSession):
    """One whose engine's slots can be saved: see ``SavesSlots``."""

    def save_slot(self, slot: int, tokens: int) -> npt.NDArray[np.float32]:
        """See ``SavesSlots``."""
        return self._process().save_slot(slot, tokens)

    def load_slot(self, slot: int, kv: npt.NDArray[np.float32]) -> None:
        """See ``SavesSlots``."""
        self._process().load_slot(slot, kv)
