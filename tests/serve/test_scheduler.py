from __future__ import annotations

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from chipwise.engine.null import NullOptions, NullSession
from chipwise.errors import OverloadedError
from chipwise.serve.request import Request
from chipwise.serve.sampling import SamplingParams
from chipwise.serve.scheduler import Scheduler, Step
from chipwise.serve.sequence import Sequence
from chipwise.serve.slots import Move
from tests.serve.fakes import VOCAB, alone


def sequence(n_prompt: int, max_tokens: int = 100, first: int = 1) -> Sequence:
    prompt = np.arange(first, first + n_prompt, dtype=np.int64) % 256
    return Sequence(Request("r", prompt, max_tokens, SamplingParams(temperature=0), (), 0.0))


def scheduler(n_slots: int = 3, *, step: int = 8, chunk: int = 4, max_waiting: int = 5) -> Scheduler:
    return Scheduler(n_slots=n_slots, max_step_tokens=step, chunk_tokens=chunk, max_waiting=max_waiting)


def turn(plan: Scheduler, token: int = 9) -> Step:
    """Let a step run and give every row a token."""
    step = plan.schedule(0.0)
    assert step is not None
    plan.advance(step)
    if step.chooses:
        for one in step.sequences:
            plan.feed(one, token)
    return step


def shape(step: Step) -> tuple[str, int, int, int]:
    return step.kind, step.batch.first_slot, step.batch.rows, step.batch.new_tokens


def test_nothing_to_do() -> None:
    assert scheduler().schedule(0.0) is None


def test_prompt_goes_in_then_tokens_follow() -> None:
    plan, one = scheduler(), sequence(5)
    plan.submit(one)
    step = plan.schedule(2.5)
    assert step is not None
    assert shape(step) == ("prefill", 0, 1, 5)
    assert step.chooses
    assert (one.started_s, one.slot) == (2.5, 0)
    assert (step.batch.tokens.tolist(), step.batch.past.tolist()) == ([[1, 2, 3, 4, 5]], [0])
    assert plan.advance(step) == []
    plan.feed(one, 77)
    step = plan.schedule(3.0)
    assert step is not None
    assert shape(step) == ("decode", 0, 1, 1)
    assert (step.batch.tokens.tolist(), step.batch.past.tolist()) == ([[77]], [5])


def test_alone_a_long_prompt_takes_whole_steps() -> None:
    plan = scheduler(step=8, chunk=4)
    plan.submit(sequence(19))
    steps = [turn(plan) for _ in range(4)]
    assert [shape(step)[3] for step in steps] == [8, 8, 3, 1]
    assert [step.chooses for step in steps] == [False, False, True, True]


def test_a_running_stream_waits_for_one_chunk_at_most() -> None:
    plan = scheduler(step=8, chunk=4)
    plan.submit(sequence(2))
    turn(plan)
    plan.submit(sequence(10))
    plan.submit(sequence(3))
    kinds = [shape(turn(plan)) for _ in range(10)]
    assert kinds == [
        ("decode", 0, 1, 1),
        ("prefill", 1, 1, 4),
        ("decode", 0, 1, 1),
        ("prefill", 1, 1, 4),
        ("decode", 0, 1, 1),
        ("prefill", 1, 1, 2),
        ("decode", 0, 2, 1),
        ("prefill", 2, 1, 3),
        ("decode", 0, 3, 1),
        ("decode", 0, 3, 1),
    ]


def test_first_come_first_served() -> None:
    plan, sequences = scheduler(n_slots=1), [sequence(1) for _ in range(3)]
    for one in sequences:
        plan.submit(one)
    served = []
    for _ in range(3):
        step = turn(plan)
        served.append(step.sequences[0])
        plan.release(step.sequences[0])
    assert served == sequences


def test_queue_is_bounded() -> None:
    plan = scheduler(n_slots=2, max_waiting=1)
    for _ in range(3):
        plan.submit(sequence(1))
    with pytest.raises(OverloadedError, match="2 requests run and 3 wait"):
        plan.submit(sequence(1))
    turn(plan)
    with pytest.raises(OverloadedError):
        plan.submit(sequence(1))


def test_no_queue_at_all_still_fills_the_slots() -> None:
    plan = scheduler(n_slots=2, max_waiting=0)
    plan.submit(sequence(1))
    plan.submit(sequence(1))
    with pytest.raises(OverloadedError):
        plan.submit(sequence(1))


def test_waiting_sequence_leaves_without_touching_the_running() -> None:
    plan, running, waiting = scheduler(n_slots=1), sequence(1), sequence(1)
    plan.submit(running)
    turn(plan)
    plan.submit(waiting)
    assert plan.release(waiting) == []
    assert plan.running == (running,)
    assert plan.n_waiting == 0
    assert plan.release(waiting) == []


def test_those_who_leave_together_are_not_moved() -> None:
    plan, sequences = scheduler(n_slots=4), [sequence(1) for _ in range(4)]
    for one in sequences:
        plan.submit(one)
    while len(plan.running) < 4 or turn(plan).kind == "prefill":
        turn(plan)
    past = sequences[2].past
    assert plan.release(sequences[0], sequences[3], sequences[1]) == [Move(2, 1, past), Move(1, 0, past)]


class Machine(RuleBasedStateMachine):
    """Requests come, run and go at random; each must get what it gets alone, from slots that really hold its tokens."""

    N_SLOTS = 3

    def __init__(self) -> None:
        super().__init__()
        self.session = NullSession(self.N_SLOTS, 64, NullOptions(vocab_size=VOCAB, max_step_tokens=6))
        self.plan = scheduler(self.N_SLOTS, step=6, chunk=3, max_waiting=3)
        self.said: dict[Sequence, list[int]] = {}
        self.last_kind = "decode"
        self.count = 0

    @rule(n_prompt=st.integers(1, 15), max_tokens=st.integers(1, 12))
    def submit(self, n_prompt: int, max_tokens: int) -> None:
        self.count += 1
        one = sequence(n_prompt, max_tokens, first=self.count * 7)
        room = self.plan.n_waiting + len(self.plan.running) < self.N_SLOTS + 3
        if room:
            self.plan.submit(one)
            self.said[one] = []
        else:
            with pytest.raises(OverloadedError):
                self.plan.submit(one)

    @precondition(lambda self: self.said)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        self.leave(data.draw(st.lists(st.sampled_from(list(self.said)), min_size=1, max_size=3, unique=True)))

    @rule()
    def step(self) -> None:
        somebody_decodes = any(one.next_token is not None for one in self.plan.running)
        step = self.plan.schedule(0.0)
        assert (step is None) == (not self.said)
        if step is None:
            return
        if somebody_decodes and self.last_kind == "prefill":
            assert step.kind == "decode", "a running stream waits for a second chunk"
        self.last_kind = step.kind
        logits = self.session.step(step.batch).logits
        moves = self.plan.advance(step)
        chosen = logits.argmax(axis=1).tolist()
        self.run(moves)
        if step.chooses:
            for one, token in zip(step.sequences, chosen, strict=True):
                self.said[one].append(token)
                self.plan.feed(one, token)
            self.leave([s for s in step.sequences if len(self.said[s]) == s.request.max_tokens])

    def leave(self, leaving: list[Sequence]) -> None:
        for one in leaving:
            said = self.said.pop(one)
            expected = alone(one.request.prompt.tolist(), len(said)) if said else []
            assert said[: len(expected)] == expected
        self.run(self.plan.release(*leaving))
        assert all(one.slot is None for one in leaving)

    def run(self, moves: list[Move]) -> None:
        for move in moves:
            self.session.move_slot(move.source, move.target, move.tokens)

    @invariant()
    def slots_hold_what_they_should(self) -> None:
        running = self.plan.running
        assert sorted({s.slot for s in running}) == sorted(s.slot for s in running)
        assert len(running) + self.plan.n_waiting == len(self.said)
        for one in running:
            tokens = [*one.request.prompt.tolist(), *self.said[one]]
            assert self.session.held(one.slot)[: one.past] == tokens[: one.past]


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
