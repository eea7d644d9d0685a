"""RemoteSession: the session in one worker, until that is lost."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from chipwise.engine.batch import Batch, StepOutput
from chipwise.engine.batch_limits import BatchLimits
from chipwise.engine.isolated.process import EngineProcess
from chipwise.engine.isolated.remote_engine import RemoteEngine
from chipwise.engine.isolated.step_limit import StepLimit
from chipwise.engine.isolated.step_place import StepPlace
from chipwise.engine.isolated.wire import Message
from chipwise.engine.known_fault import Symptom
from chipwise.errors import EngineError


@dataclass(frozen=True)
class Opening:
    """What a worker is to open.

    Attributes:
        engine: The engine's name in the registry.
        files: The graph files by role.
        n_slots: KV slots.
        max_context: Tokens a slot holds.
        options: The engine's own settings; JSON.
    """

    engine: str
    files: Mapping[str, Path]
    n_slots: int
    max_context: int
    options: Mapping[str, Any]

    def message(self) -> Message:
        """It as a message."""
        files = {role: str(path.absolute()) for role, path in self.files.items()}
        options = dict(self.options)
        return {**{one.name: getattr(self, one.name) for one in fields(self)}, "files": files, "options": options}


@dataclass(frozen=True)
class SessionFacts:
    """What a session in another process says of itself: see ``Session`` and its companions."""

    n_slots: int
    max_context: int
    vocab_size: int
    max_step_tokens: int
    whole_tokens: int
    max_draft_tokens: int
    max_draft_rows: int
    saves: bool


class RemoteSession(RemoteEngine):
    """The session of one worker. Once that is lost, every call raises EngineLostError.

    Args:
        process: The worker, just started.
        opening: What it opens.
        limit: How long steps may take; it learns.
        start_timeout_s: How long opening may take.
    """

    def __init__(self, process: EngineProcess, opening: Opening, limit: StepLimit, start_timeout_s: float) -> None:
        super().__init__(process)
        self._limit = limit
        answer = self._call(opening.message(), start_timeout_s, f"it did not open within {start_timeout_s:g} s")
        self.facts: Final = SessionFacts(**{one.name: answer[one.name] for one in fields(SessionFacts)})
        facts = self.facts
        self.n_slots: Final = facts.n_slots
        self.max_context: Final = facts.max_context
        self.vocab_size: Final = facts.vocab_size
        self.max_step_tokens: Final = facts.max_step_tokens
        self._limits = BatchLimits(facts.n_slots, facts.max_context, facts.vocab_size, facts.max_step_tokens)

    def step(self, batch: Batch) -> StepOutput:
        """Run one step; see ``Session.step``. The logits lie in memory that the worker writes."""
        self._limits.check(batch)
        rows, new, every = batch.rows, batch.new_tokens, batch.logits == "all"
        place = StepPlace(rows, new)
        shape = (rows, new, self.vocab_size) if every else (rows, self.vocab_size)
        memory = self.process.memory
        self._require_alive()
        # The largest first, so that it grows once.
        logits = memory.array(np.float32, shape, place.logits)
        memory.array(np.int64, (rows,))[...] = batch.past
        memory.array(np.int64, (rows, new), place.tokens)[...] = batch.tokens
        if batch.used is not None:
            memory.array(np.int64, (rows,), place.used)[...] = batch.used
        limit_s = self._limit.seconds(batch)
        started_s = time.monotonic()
        asked = {"do": "step", "first": batch.first_slot, "rows": rows, "new": new, "all": every}
        padded = batch.used is not None
        late = f"a step took longer than {limit_s:g} s and counts as a hang"
        answer = self._call({**asked, "padded": padded}, limit_s, late)
        self._limit.learn(batch, time.monotonic() - started_s)
        return StepOutput(logits, float(answer["once_s"]))

    def move_slot(self, source: int, target: int, tokens: int) -> None:
        """See ``Session.move_slot``."""
        self._short({"do": "move", "source": source, "target": target, "tokens": tokens})

    def save_slot(self, slot: int, tokens: int) -> npt.NDArray[np.float32]:
        """See ``SavesSlots``."""
        shape = self._short({"do": "save", "slot": slot, "tokens": tokens})["shape"]
        kv = self.process.kv.array(np.float32, tuple(shape)).copy()
        self.process.kv.empty()
        return kv

    def load_slot(self, slot: int, kv: npt.NDArray[np.float32]) -> None:
        """See ``SavesSlots``."""
        if kv.dtype != np.float32:
            raise EngineError(f"KV of {kv.dtype} is no session's", where="isolation")
        self._require_alive()
        self.process.kv.array(np.float32, kv.shape)[...] = kv
        try:
            self._short({"do": "load", "slot": slot, "shape": kv.shape})
        finally:
            self.process.kv.empty()

    def explain(self, symptom: Symptom) -> str | None:
        """See ``KnowsFaults``."""
        text = self._short({"do": "explain", "symptom": symptom})["text"]
        return None if text is None else str(text)

    def _short(self, message: Message) -> dict[str, Any]:
        limit_s = self._limit.other_s
        return self._call(message, limit_s, f"a copy took longer than {limit_s:g} s and counts as a hang")
