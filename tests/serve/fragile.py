"""A session that is lost and comes back, in the test's own process."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from chipwise.engine.batch import Batch, StepOutput
from chipwise.engine.null import NullOptions, NullSession
from chipwise.engine.restarts import EngineState
from chipwise.errors import EngineLostError

Kills = Callable[[int, Sequence[Sequence[int]]], bool]
"""From a step's number and what its rows' slots hold, its new tokens too: whether the engine is lost in it."""


class FragileSession(NullSession):
    """Lost in chosen steps and copies, with all that its slots held; see ``Restarts``.

    Attributes:
        state: Set by the test; it comes back as ``after``.
        after: The state when it was lost and renewed.
    """

    def __init__(self, n_slots: int, max_context: int, options: NullOptions, kills: Kills) -> None:
        super().__init__(n_slots, max_context, options)
        self._sizes, self._all_options = (n_slots, max_context), options
        self._kills = kills
        self.state: EngineState = "up"
        self.after: EngineState = "up"
        self.restarts, self.trouble = 0, "it is lost"
        self.asked = 0
        self.rows_lost: list[int] = []
        self._loss: EngineLostError | None = None
        self.look: Callable[[], None] | None = None

    def lose(self) -> None:
        """Lose it between two steps."""
        self._loss = EngineLostError(f"lost {self.restarts}")
        self.state = self.after

    def step(self, batch: Batch) -> StepOutput:
        self._require()
        self.asked += 1
        rows = [
            [*self.held(batch.first_slot + row)[: int(batch.past[row])], *batch.tokens[row].tolist()]
            for row in range(batch.rows)
        ]
        if self._kills(self.asked - 1, rows):
            self.rows_lost.append(batch.rows)
            self.lose()
            self._require()
        return super().step(batch)

    def move_slot(self, source: int, target: int, tokens: int) -> None:
        self._require()
        super().move_slot(source, target, tokens)

    def save_slot(self, slot: int, tokens: int):
        self._require()
        return super().save_slot(slot, tokens)

    def renew(self) -> EngineLostError | None:
        loss, self._loss = self._loss, None
        if loss is not None:
            self.restarts += 1
            NullSession.__init__(self, *self._sizes, self._all_options)
        return loss

    def while_waiting(self, look: Callable[[], None]) -> None:
        self.look = look

    def _require(self) -> None:
        if self._loss is not None:
            raise self._loss
        assert self.state == "up", "asked while it is not up"
