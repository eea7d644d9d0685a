"""One rehearsal: the scheduler, the policy and the meters on a virtual board, in virtual time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from benchmarks.rehearsal_load import air_c, arrivals
from chipwise.engine.batch import Batch
from chipwise.engine.null import NullOptions, NullSession
from chipwise.errors import OverloadedError
from chipwise.serve.hardware.clock_cap import ClockCap
from chipwise.serve.hardware.hardware import Hardware
from chipwise.serve.hardware.policy import Policy
from chipwise.serve.hardware.rehearsed_session import load_of
from chipwise.serve.hardware.rung import ladder
from chipwise.serve.request.priority import Priority
from chipwise.serve.request.request import Request
from chipwise.serve.request.sequence import Sequence
from chipwise.serve.schedule.scheduler import Scheduler, SchedulerRules, Step
from chipwise.sim import Activity, VirtualBoard, VirtualFiles, load_spec
from chipwise.telemetry import BoardMeters, Tree

# Gemma2-2B in w8a8 on an RK3588: 598.41 ms for a prompt of 128 tokens, 10.37 tokens a second (rknn-llm benchmark).
PREFILL_S, DECODE_S = 0.59841 / 128, 1 / 10.37
# Assumed: what a further row of a decode adds.
ROW_S = 0.01
PLACES, PARKING = 4, 1
CLOCK_FLOOR = 0.6
CONTEXT = 512
SAMPLE_S = 3.0
MAX_WAITING = 32
SETTLE_S = 60.0


@dataclass
class Tally:
    """What became of the requests of one priority."""

    asked: int = 0
    refused: int = 0
    first_s: list[float] = field(default_factory=list)
    whole_s: list[float] = field(default_factory=list)


class Rehearsal:
    """A board that serves a load.

    Args:
        board: The virtual board.
        seed: Of the load.
        with_policy: False shows what the kernel's own throttling makes of it.
        start_s: The time of the day at which it begins.
    """

    def __init__(self, board: str, *, seed: int, with_policy: bool, start_s: float = 0.0) -> None:
        self._start_s = start_s
        self.board = VirtualBoard(load_spec(board), air_c(start_s))
        files = VirtualFiles(self.board)
        tree = Tree(files, timeout_s=None)
        cap = ClockCap(tree, files.write)
        self.clock_ratios = cap.ratios(CLOCK_FLOOR)
        policy = Policy(ladder(PLACES, self.clock_ratios)) if with_policy else None
        self.hardware = Hardware(board, BoardMeters(tree), policy, clock_cap=cap, clock=lambda: self.board.now_s)
        self._session = NullSession(PLACES + PARKING, CONTEXT, NullOptions(vocab_size=64))
        rules = SchedulerRules(max_running=PLACES, reserved=1, max_waiting=dict.fromkeys(Priority, MAX_WAITING))
        self._scheduler: Final = Scheduler(n_slots=PLACES + PARKING, max_step_tokens=256, rules=rules)
        self._seed = seed
        self._pending: Request | None = None
        self.tallies = {priority: Tally() for priority in Priority}
        self.steps = self.samples = 0
        self.busy_s = 0.0
        self.level_s: Counter[int] = Counter()
        self.changed_s: list[float] = []

    def run(self, duration_s: float) -> None:
        """Let so many seconds pass, and the answers that are then under way come to their end."""
        load = arrivals(duration_s, self._seed, self._start_s)
        self._pending = next(load, None)
        next_sample_s = 0.0
        while self.board.now_s < duration_s + SETTLE_S:
            now_s = self.board.now_s
            self._take(load, now_s)
            if now_s >= next_sample_s:
                self._sample()
                next_sample_s += SAMPLE_S
            step = self._scheduler.schedule(now_s, self.hardware.limits())
            if step is not None:
                self._step(step)
                continue
            event_s = next_sample_s if self._pending is None else min(next_sample_s, self._pending.arrived_s)
            self.board.advance(max(1e-6, event_s - now_s))

    def _take(self, load: Iterator[Request], now_s: float) -> None:
        while self._pending is not None and self._pending.arrived_s <= now_s:
            tally = self.tallies[self._pending.priority]
            tally.asked += 1
            try:
                self._scheduler.submit(Sequence(self._pending), self.hardware.limits())
            except OverloadedError:
                tally.refused += 1
            self._pending = next(load, None)

    def _sample(self) -> None:
        self.samples += 1
        self.board.air_c = air_c(self._start_s + self.board.now_s)
        before = self.hardware.decision
        self.hardware.sample()
        after = self.hardware.decision
        if before is not None and after is not None:
            self.level_s[after.level] += SAMPLE_S
            if before.level != after.level:
                self.changed_s.append(self.board.now_s)

    def _step(self, step: Step) -> None:
        for move in step.moves:
            self._session.move_slot(move.source, move.target, move.tokens)
        logits = self._session.step(step.batch).logits
        # At a lower clock a step is slower in proportion: the worst case, as reading weights need not be.
        duration_s = cost_s(step.batch) / self.board.clock_ratio
        self.board.advance(duration_s, Activity(load_of(step.batch), 0.1))
        self.steps += 1
        self.busy_s += duration_s
        moves = self._scheduler.advance(step, duration_s)
        if step.chooses:
            ended = [s for row, s in enumerate(step.sequences) if self._choose(s, int(logits[row].argmax()))]
            moves += self._scheduler.release(*ended, now_s=self.board.now_s) if ended else []
        for move in moves:
            self._session.move_slot(move.source, move.target, move.tokens)

    def _choose(self, sequence: Sequence, token: int) -> bool:
        """Hand a token on; whether the answer is whole."""
        request, now_s = sequence.request, self.board.now_s
        said = sequence.known - len(request.prompt)
        tally = self.tallies[request.priority]
        if said == 0:
            tally.first_s.append(now_s - request.arrived_s)
        if said + 1 < request.max_tokens:
            self._scheduler.feed(sequence, token)
            return False
        tally.whole_s.append(now_s - request.arrived_s)
        return True


def cost_s(batch: Batch) -> float:
    """How long a step takes at the highest clock."""
    return batch.new_tokens * PREFILL_S if batch.new_tokens > 1 else DECODE_S + (batch.rows - 1) * ROW_S


def percentile(values: list[float], share: float) -> float:
    """A percentile, 0 for none."""
    return float(np.percentile(values, 100 * share)) if values else 0.0
