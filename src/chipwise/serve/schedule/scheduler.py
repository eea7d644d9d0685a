"""Scheduler: decides what the next step of the session is. Pure: it knows no clock, thread or engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from chipwise.engine.batch import Batch
from chipwise.serve.kv.kv_contents import KvContents
from chipwise.serve.kv.slots import Move
from chipwise.serve.request.limits import Limits
from chipwise.serve.request.priority import Priority
from chipwise.serve.request.sequence import Sequence
from chipwise.serve.schedule.ageing import Ageing
from chipwise.serve.schedule.chunks import ChunkRule
from chipwise.serve.schedule.fair_shares import GENERATED_WEIGHT, PROMPT_WEIGHT, FairShares
from chipwise.serve.schedule.roster import Roster
from chipwise.serve.schedule.speculation import Speculation
from chipwise.serve.schedule.step_cost import StepCost
from chipwise.serve.schedule.waiting_room import WaitingRoom
from chipwise.serve.speculation.draft import NO_DRAFT, Draft

NO_LIMITS = Limits()


@dataclass(frozen=True)
class Step:
    """What to run next.

    Attributes:
        kind: ``prefill`` feeds tokens of one sequence, ``decode`` one token of each that has all others in.
        batch: What the session is given. Its arrays are the scheduler's, and valid until it is asked again.
        sequences: The sequence of each row.
        chooses: Whether each row's logits are the next token's: false for a part of a prompt that is not its end.
        moves: What is to be copied before it runs.
        drafts: Of a decode that checks guesses, each row's, which follows its one token and may be empty; else nothing.
    """

    kind: Literal["prefill", "decode"]
    batch: Batch
    sequences: tuple[Sequence, ...]
    chooses: bool
    moves: tuple[Move, ...] = ()
    drafts: tuple[Draft, ...] = ()

    def draft(self, row: int) -> Draft:
        """What is guessed of a row; mostly nothing."""
        return self.drafts[row] if self.drafts else NO_DRAFT

    def logits(self, logits: npt.NDArray[np.float32], row: int) -> npt.NDArray[np.float32]:
        """A row's part of the logits that the session gave for the batch, float32 ``[1 + len(draft), vocab]``."""
        return logits[row, : 1 + len(self.drafts[row])] if self.drafts else logits[row : row + 1]

    def best(self, best: list[int], row: int) -> list[int]:
        """A row's part of the likeliest tokens behind all tokens of the batch: ``1 + len(draft)`` ids."""
        if not self.drafts:
            return best[row : row + 1]
        start = row * self.batch.new_tokens
        return best[start : start + 1 + len(self.drafts[row])]


@dataclass(frozen=True)
class SchedulerRules:
    """How a scheduler decides.

    Attributes:
        max_running: The most that run at once; None for as many as there are slots.
        reserved: How many of these only EMERGENCY and INTERACTIVE requests may be.
        max_waiting: The most that may wait, by priority; one that is not named has no bound.
        chunks: How prompts are cut.
        ageing: How waiting raises a request.
        least_reused: The fewest tokens of KV that another prompt's beginning is taken over for; None computes all anew.
    """

    max_running: int | None = None
    reserved: int = 0
    max_waiting: Mapping[Priority, int] | None = None
    chunks: ChunkRule = field(default_factory=ChunkRule)
    ageing: Ageing = field(default_factory=Ageing)
    least_reused: int | None = 1


class Scheduler:
    """Iteration-level batching with priorities: sequences join, leave and change places between any two steps.

    The most urgent go first, of equals the client that was served least. One that waits displaces a less urgent one
    that runs: that is parked, and keeps its KV, as long as there is a slot for it; else it loses its KV, and all its
    tokens are fed again later. Prompts go before decoding, but while others that are as urgent decode only in chunks,
    and never two chunks in a row: a running stream waits for one chunk at most.

    The cycle is ``expired``, ``schedule``, the step's moves, the step, ``advance``, then for every row that chooses
    ``feed`` or ``release``; the moves these return are run on the session in their order. A row with a draft goes on
    with ``feed`` as long as ``confirm`` says so, and with ``checked``.

    Args:
        n_slots: KV slots.
        max_step_tokens: The most tokens a row of a step.
        rules: How it decides.
        speculation: Plans drafts; None if there are none.
        draft_tokens: The most tokens behind a first one that the session computes as if they came one by one. What a
            sequence said before it lost its KV is fed again so; with 0 it is fed as prompts are, and may round
            otherwise.
    """

    def __init__(
        self,
        *,
        n_slots: int,
        max_step_tokens: int,
        rules: SchedulerRules | None = None,
        speculation: Speculation | None = None,
        draft_tokens: int = 0,
    ) -> None:
        rules = rules or SchedulerRules()
        bounds = rules.max_waiting or {}
        unbounded = 1 << 62
        self._ageing = rules.ageing
        self._chunks = rules.chunks
        self._max_step_tokens = max_step_tokens
        self._draft_tokens = draft_tokens
        self._shares = FairShares()
        self._room = WaitingRoom({priority: bounds.get(priority, unbounded) for priority in Priority})
        self._roster = Roster(
            n_slots, self._room, self._shares, rules.ageing, rules.max_running, rules.reserved, rules.least_reused
        )
        self.speculation = speculation
        # Charged with the next step: clients come and go in other threads meanwhile.
        self._uncharged: list[Sequence] = []
        self.cost = StepCost()
        self._decode_is_due = False
        self._serial = 0
        self._urgent_s: float | None = None
        self._tokens = np.zeros((n_slots, 1), dtype=np.int64)
        self._past = np.zeros(n_slots, dtype=np.int64)

    @property
    def n_waiting(self) -> int:
        """Sequences without a slot."""
        return len(self._room)

    @property
    def waiting(self) -> tuple[Sequence, ...]:
        """Sequences without a slot."""
        return tuple(self._room)

    @property
    def max_running(self) -> int:
        """The most that run at once, urgent ones among them."""
        return self._roster.max_running

    @property
    def n_parked(self) -> int:
        """Sequences that keep a slot and do not run."""
        return len(self._roster.pool.parked)

    @property
    def n_displaced(self) -> tuple[int, int]:
        """How often a sequence was parked, and how often one lost its KV."""
        return self._roster.n_parkings, self._roster.n_evictions

    @property
    def contents(self) -> KvContents:
        """What the slots hold. To be changed only while nothing runs."""
        return self._roster.contents

    @property
    def n_reused(self) -> int:
        """Tokens that were not computed because their KV was there."""
        return self._roster.contents.n_reused

    @property
    def running(self) -> tuple[Sequence, ...]:
        """Sequences that run."""
        return self._roster.pool.active

    @property
    def holding(self) -> tuple[Sequence, ...]:
        """Sequences with a slot."""
        return self._roster.pool.holding

    def submit(self, sequence: Sequence, limits: Limits = NO_LIMITS) -> None:
        """Let a sequence wait for its turn.

        Raises:
            OverloadedError: As many of its priority wait as may, or the limits shed it.
        """
        roster = self._roster
        self._room.take(
            sequence,
            limits,
            running=len(self.running),
            places=roster.places(sequence, limits),
            free=roster.free_places(sequence, limits),
        )
        self._entered(sequence)

    def adopt(self, sequence: Sequence) -> None:
        """Let a sequence wait that another scheduler had taken: it is not refused."""
        self._room.put_back(sequence)
        self._entered(sequence)

    def expired(self, now_s: float) -> list[Sequence]:
        """Those whose deadline has passed. They are to be released."""
        return [
            sequence
            for sequence in (*self._room, *self.holding)
            if sequence.request.deadline_s is not None and sequence.request.deadline_s <= now_s
        ]

    def schedule(self, now_s: float, limits: Limits = NO_LIMITS) -> Step | None:
        """The next step; None if there is nothing to do.

        Args:
            now_s: The time.
            limits: What the hardware lets be done.
        """
        moves = tuple(self._roster.arrange(now_s, limits))
        entering, decoding = self._roster.pool.entering, self._roster.pool.decoding
        alert = self._urgent_s is not None and now_s - self._urgent_s < self._chunks.alert_for_s
        if entering and not (self._decode_is_due and self._has_equal(entering)):
            self._decode_is_due = True
            return self._prefill(entering, moves, alone=not decoding, alert=alert)
        self._decode_is_due = False
        return self._decode(moves, self._chunks.budget(alert=alert)) if decoding else None

    def advance(self, step: Step, duration_s: float | None = None) -> list[Move]:
        """The step has run: its tokens are in the slots, and whoever has all of them in decodes from now on.

        Args:
            step: The step.
            duration_s: How long it took, for the next ones to be cut by; None if it is not known.
        """
        weight = PROMPT_WEIGHT if step.kind == "prefill" else GENERATED_WEIGHT
        if step.kind == "prefill" and step.batch.used is None:
            self._roster.contents.fed(step.sequences[0], int(step.batch.past[0]), step.batch.new_tokens)
        for sequence in self._uncharged:
            self._shares.charge(sequence.request.client, 1, GENERATED_WEIGHT)
        self._uncharged.clear()
        # Of a draft's tokens, those that are confirmed count, later.
        fed = 1 if step.drafts else step.batch.new_tokens
        for sequence in step.sequences:
            sequence.past += fed
            self._shares.charge(sequence.request.client, fed, weight)
        if duration_s is not None:
            self._learn(step, duration_s)
        if step.kind == "decode" or not step.chooses:
            return []
        return self._roster.start_decoding()

    def spoiled(self, sequences: Iterable[Sequence]) -> None:
        """What the slots of these hold is not defined any more. They are to be released."""
        self._roster.contents.spoiled(sequence.slot for sequence in sequences if sequence.slot is not None)

    def forget(self) -> None:
        """A copy failed: what any slot holds is not defined any more. All that hold one are to be released."""
        self._roster.contents.forget()

    def feed(self, sequence: Sequence, token: int) -> None:
        """A token was chosen: it is fed in the sequence's next step."""
        sequence.append(token)

    def confirm(self, sequence: Sequence, guessed: int) -> bool:
        """Whether the token that was just fed is the guessed one, whose KV is in its slot already."""
        if sequence.tokens[sequence.known - 1] != guessed:
            return False
        sequence.past += 1
        self._uncharged.append(sequence)
        return True

    def checked(self, sequence: Sequence, draft: Draft, right: int) -> None:
        """A draft was checked: so many of its first tokens were right."""
        if self.speculation is not None:
            self.speculation.checked(sequence, draft, right)

    def release(self, *sequences: Sequence, now_s: float | None = None) -> list[Move]:
        """These are over, whether they ran or waited. Sequences that are over already are passed over.

        Args:
            sequences: Those that leave.
            now_s: The time, if their answers are complete: how long they took tells others when to come back.
        """
        moves: list[Move] = []
        # From the last slot down, so that none is moved that leaves too.
        for sequence in sorted(sequences, key=lambda s: -1 if s.slot is None else s.slot, reverse=True):
            if sequence.slot is not None:
                moves += self._roster.leave(sequence)
            elif sequence in self._room:
                self._room.remove(sequence)
            else:
                continue
            self._shares.leave(sequence.request.client)
            if now_s is not None and sequence.started_s is not None:
                self._room.ended(now_s - sequence.started_s)
                if self.speculation is not None:
                    self.speculation.complete(sequence)
        return moves

    def _entered(self, sequence: Sequence) -> None:
        self._serial += 1
        sequence.serial, sequence.since_s = self._serial, sequence.request.arrived_s
        self._shares.enter(sequence.request.client)
        if sequence.request.priority <= Priority.INTERACTIVE:
            self._urgent_s = sequence.request.arrived_s

    def _has_equal(self, entering: Sequence) -> bool:
        """Whether one of those that decode is as urgent as the one that enters."""
        level = self._ageing.running_level(entering)
        return any(self._ageing.running_level(sequence) <= level for sequence in self._roster.pool.decoding)

    def _prefill(self, sequence: Sequence, moves: tuple[Move, ...], *, alone: bool, alert: bool) -> Step:
        start, slot = sequence.past, sequence.slot
        if slot is None:
            raise RuntimeError("the entering sequence holds no slot")
        told = self._draft_tokens > 0 and start >= sequence.read
        left = sequence.remaining if told or not self._draft_tokens else sequence.read - start
        size = self._chunks.size(
            left, self._max_step_tokens, self.cost, starts=start == 0, alone=alone, alert=alert,
            emergency=sequence.request.priority is Priority.EMERGENCY,
        )  # fmt: skip
        past = self._past[slot : slot + 1]
        past[0] = start
        if told:
            size = min(size, 1 + self._draft_tokens)
        used = np.array([size], np.int64) if told and size > 1 else None
        batch = Batch(slot, sequence.tokens[None, start : start + size], past, used=used)
        return Step("prefill", batch, (sequence,), chooses=size == sequence.remaining, moves=moves)

    def _learn(self, step: Step, duration_s: float) -> None:
        batch, plain_s = step.batch, self.cost.predict_s("decode", step.batch.rows)
        if step.kind == "prefill":
            if batch.used is None:
                self.cost.learn("prefill", batch.new_tokens, duration_s)
        elif not step.drafts:
            self.cost.learn("decode", batch.rows, duration_s)
        elif plain_s is not None:
            self.cost.learn("draft", batch.rows * (batch.new_tokens - 1), max(0.0, duration_s - plain_s))

    def _decode(self, moves: tuple[Move, ...], budget_s: float) -> Step:
        sequences = tuple(self._roster.pool.decoding)
        rows = len(sequences)
        for row, sequence in enumerate(sequences):
            if sequence.remaining != 1:
                raise RuntimeError("a sequence was neither fed nor released after its last step")
            self._tokens[row, 0] = sequence.tokens[sequence.past]
            self._past[row] = sequence.past
        batch = Batch(0, self._tokens[:rows], self._past[:rows])
        drafts = () if self.speculation is None else tuple(self.speculation.plan(sequences, self.cost, budget_s))
        if not any(drafts):
            return Step("decode", batch, sequences, chooses=True, moves=moves)
        return Step("decode", _with_drafts(batch, drafts), sequences, chooses=True, moves=moves, drafts=drafts)


def _with_drafts(batch: Batch, drafts: tuple[Draft, ...]) -> Batch:
    """Each row's guess behind its token, padded to the longest."""
    used = np.array([1 + len(draft) for draft in drafts], np.int64)
    tokens = np.zeros((batch.rows, used.max()), np.int64)
    tokens[:, :1] = batch.tokens
    for row, draft in enumerate(drafts):
        tokens[row, 1 : used[row]] = draft.tokens
    return Batch(batch.first_slot, tokens, batch.past, "all", used)
