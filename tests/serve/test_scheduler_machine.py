"""Requests of all kinds come, run and go at random: what must hold whatever happens."""

from __future__ import annotations

import math

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from chipwise.engine.null import NullOptions, NullSession
from chipwise.errors import OverloadedError
from chipwise.serve.kv.slots import Move
from chipwise.serve.request.limits import Limits
from chipwise.serve.request.priority import Priority
from chipwise.serve.request.sequence import Sequence
from chipwise.serve.schedule.ageing import Ageing
from chipwise.serve.schedule.chunks import ChunkRule
from chipwise.serve.schedule.scheduler import NO_LIMITS, Scheduler, SchedulerRules, Step
from tests.serve.fakes import VOCAB, alone
from tests.serve.schedule.test_scheduler import sequence

N_SLOTS, MAX_RUNNING, MAX_WAITING = 4, 3, 3
STEP_TOKENS = 6
INTERVAL_S = 5.0
PRIORITIES = st.sampled_from(list(Priority))


class Machine(RuleBasedStateMachine):
    """Each gets what it gets alone, from slots that really hold its tokens."""

    def __init__(self) -> None:
        super().__init__()
        options = NullOptions(vocab_size=VOCAB, max_step_tokens=STEP_TOKENS, prefill_s=0.01, decode_s=0.02)
        self.session = NullSession(N_SLOTS, 64, options)
        self.clock = self.session.clock
        self.plan = Scheduler(
            n_slots=N_SLOTS,
            max_step_tokens=STEP_TOKENS,
            rules=SchedulerRules(
                max_running=MAX_RUNNING,
                reserved=1,
                max_waiting=dict.fromkeys(Priority, MAX_WAITING),
                chunks=ChunkRule(unmeasured_tokens=3),
                ageing=Ageing(INTERVAL_S, slice_tokens=3),
            ),
        )
        self.said: dict[Sequence, list[int]] = {}
        self.limits = NO_LIMITS
        self.last: Step | None = None

    @rule(
        n_prompt=st.integers(1, 40),
        first=st.sampled_from([1, 50, 100]),
        max_tokens=st.integers(1, 12),
        priority=PRIORITIES,
        client=st.sampled_from("ab"),
        in_s=st.none() | st.floats(0.01, 3.0),
    )
    def submit(
        self, n_prompt: int, first: int, max_tokens: int, priority: Priority, client: str, in_s: float | None
    ) -> None:
        now_s = self.clock()
        deadline_s = None if in_s is None else now_s + in_s
        one = sequence(n_prompt, max_tokens, first, now_s, priority=priority, client=client, deadline_s=deadline_s)
        if self.limits.sheds(priority):
            with pytest.raises(OverloadedError, match="turned away"):
                self.plan.submit(one, self.limits)
            return
        try:
            self.plan.submit(one, self.limits)
        except OverloadedError:
            waiting = [s for s in self.said if s.slot is None and s.request.priority is priority]
            assert len(waiting) >= MAX_WAITING
        else:
            self.said[one] = []

    @precondition(lambda self: self.said)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        self.leave(data.draw(st.lists(st.sampled_from(list(self.said)), min_size=1, max_size=3, unique=True)))

    @rule(max_batch=st.none() | st.integers(1, 3), shed=st.frozensets(PRIORITIES, max_size=2))
    def heat(self, max_batch: int | None, shed: frozenset[Priority]) -> None:
        self.limits = Limits(max_batch, shed)

    @rule(duration_s=st.floats(0.0, 4.0))
    def wait(self, duration_s: float) -> None:
        self.clock.advance(duration_s)

    @rule()
    def step(self) -> None:
        now_s = self.clock()
        expired = self.plan.expired(now_s)
        assert set(expired) == {s for s in self.said if (s.request.deadline_s or math.inf) <= now_s}
        self.leave(expired)
        urgent = [s for s in self.said if s.request.priority is Priority.EMERGENCY and s.started_s is None]
        in_way = [s for s in self.plan.running if s.request.priority is Priority.EMERGENCY]
        step = self.plan.schedule(now_s, self.limits)
        if step is None:
            assert all(self.limits.sheds(s.request.priority) for s in self.said)
            return
        if urgent and not in_way:
            assert step.sequences[0] in urgent, "an emergency does not start with the next step"
        assert len(self.plan.running) <= (self.limits.max_batch or MAX_RUNNING)
        self.run(step.moves)
        before_s = self.clock()
        logits = self.session.step(step.batch).logits
        self.run(self.plan.advance(step, self.clock() - before_s))
        self.last = step
        if step.chooses:
            for one, token in zip(step.sequences, logits.argmax(axis=1).tolist(), strict=True):
                self.said[one].append(token)
                self.plan.feed(one, token)
            self.leave([s for s in step.sequences if len(self.said[s]) == s.request.max_tokens])

    def leave(self, leaving: list[Sequence]) -> None:
        for one in leaving:
            said = self.said.pop(one)
            expected = alone(one.request.prompt.tolist(), len(said)) if said else []
            assert said[: len(expected)] == expected
        self.run(self.plan.release(*leaving, now_s=self.clock()))
        assert all(one.slot is None for one in leaving)

    def run(self, moves: list[Move] | tuple[Move, ...]) -> None:
        for move in moves:
            self.session.move_slot(move.source, move.target, move.tokens)

    @invariant()
    def slots_hold_what_they_should(self) -> None:
        holding = self.plan.holding
        assert len({s.slot for s in holding}) == len(holding)
        assert len(holding) + self.plan.n_waiting == len(self.said)
        for one in holding:
            tokens = [*one.request.prompt.tolist(), *self.said[one]]
            assert self.session.held(one.slot)[: one.past] == tokens[: one.past]

    def teardown(self) -> None:
        """Whatever is there is served once nothing new comes and the hardware lets it."""
        self.limits = NO_LIMITS
        for _ in range(100 * (len(self.said) + 1)):
            if not self.said:
                return
            self.step()
        raise AssertionError("somebody was never served")


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


@pytest.mark.parametrize("priority", [Priority.NORMAL, Priority.BACKGROUND])
def test_nothing_starves_under_a_flood_of_more_urgent_requests(priority: Priority) -> None:
    """With interactive requests always waiting, a lesser one is on its way after one interval a priority and one more
    answer, and is complete after as many slices as it takes."""
    machine = Machine()
    machine.limits = Limits(max_batch=1)
    patient = sequence(9, 12, 3, priority=priority, client="a")
    machine.plan.submit(patient)
    machine.said[patient] = []
    for _ in range(4000):
        waiting = [s for s in machine.said if s is not patient and s.started_s is None]
        if len(waiting) < 2:
            machine.submit(n_prompt=4, first=30, max_tokens=6, priority=Priority.INTERACTIVE, client="b", in_s=None)
        machine.step()
        if patient not in machine.said:
            break
    else:
        raise AssertionError("starved")
    assert patient.started_s is not None
    answer_s = 4 * 0.01 + 6 * 0.02
    assert patient.started_s <= (priority - Priority.INTERACTIVE + 1) * INTERVAL_S + 2 * answer_s
    slices = 12 / 3
    assert machine.clock() <= slices * ((priority + 1) * INTERVAL_S + 3 * answer_s)
