"""When the engine is lost, its requests go on; one that kills it again and again is found, and the others live."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chipwise.engine.null import NullOptions, NullSession, VirtualClock
from chipwise.errors import DeadlineError, EngineError, UnavailableError
from chipwise.serve.loop.lanes import Lanes
from chipwise.serve.loop.loop import Loop
from chipwise.serve.loop.rescue import Rescue
from chipwise.serve.loop.runner import Runner
from chipwise.serve.loop.ticket import Ticket
from chipwise.serve.observe.metrics import Metrics
from chipwise.serve.request.events import Event, Failure, Finish, Piece
from chipwise.serve.request.request import Request
from chipwise.serve.schedule.chunks import ChunkRule
from chipwise.serve.schedule.scheduler import Scheduler, SchedulerRules
from chipwise.serve.text.sampling import SamplingParams
from chipwise.serve.text.vocabulary import Vocabulary
from tests.serve.fakes import VOCAB, alone, null_model, text_of
from tests.serve.fragile import FragileSession, Kills

POISON = 255


class Bench:
    """A runner on an engine that is lost as told, with a fallback or without."""

    def __init__(self, kills: Kills = lambda step, rows: False, *, n_slots: int = 3, fallback: bool = False, **options):
        self.clock, self.metrics = VirtualClock(), Metrics()
        base = null_model()
        null = NullOptions(vocab_size=VOCAB, max_step_tokens=64, clock=self.clock, decode_s=0.01, **options)
        self.session = FragileSession(n_slots, 256, null, kills)
        model = replace(base, session=self.session, process=self.session)
        vocabulary = Vocabulary(model.tokenizer)
        self.second = NullSession(n_slots, 256, NullOptions(vocab_size=VOCAB))
        plain = replace(model, session=self.second, process=None)
        self.fallback = Runner(plain, self._scheduler(n_slots), self.metrics, vocabulary, self.clock)
        self.rescue = Rescue(self._adopt, self.clock) if fallback else None
        self.scheduler = self._scheduler(n_slots)
        self.runner = Runner(model, self.scheduler, self.metrics, vocabulary, self.clock, rescue=self.rescue)
        self.events: dict[Ticket, list[Event]] = {}

    def _scheduler(self, n_slots: int) -> Scheduler:
        rules = SchedulerRules(chunks=ChunkRule(unmeasured_tokens=4))
        return Scheduler(n_slots=n_slots, max_step_tokens=64, rules=rules)

    def _adopt(self, ticket: Ticket) -> bool:
        self.fallback.adopt(ticket)
        return True

    def ask(self, prompt: list[int], max_tokens: int = 12, *, deadline_s: float | None = None, **sampling) -> Ticket:
        events: list[Event] = []
        params = SamplingParams(**{"temperature": 0.0, **sampling})
        tokens = np.array(prompt, np.int64)
        request = Request("r", tokens, max_tokens, params, (), self.clock(), deadline_s=deadline_s)
        ticket = self.runner.submit(request, events.append)
        self.events[ticket] = events
        return ticket

    def run(self, most: int = 100_000) -> None:
        while self.runner.step() | self.fallback.step():
            most -= 1
            assert most, "it does not end"

    def text(self, ticket: Ticket) -> str:
        return "".join(event.text for event in self.events[ticket] if isinstance(event, Piece))

    def end(self, ticket: Ticket) -> Event:
        (end,) = [event for event in self.events[ticket] if not isinstance(event, Piece)]
        return end


def expected(prompt: list[int], max_tokens: int = 12) -> str:
    return text_of(alone(prompt, max_tokens))


@settings(max_examples=60)
@given(
    lost=st.sets(st.integers(0, 60), max_size=2),
    prompts=st.lists(st.lists(st.integers(1, 100), min_size=1, max_size=20), min_size=1, max_size=6),
)
def test_everybody_gets_the_text_of_an_engine_that_lasts(lost: set[int], prompts: list[list[int]]) -> None:
    bench = Bench(lambda step, rows: step in lost)
    asked = [(bench.ask(prompt), prompt) for prompt in prompts]
    bench.run()
    for ticket, prompt in asked:
        assert bench.text(ticket) == expected(prompt)
        assert isinstance(bench.end(ticket), Finish)
    assert bench.runner.idle
    assert bench.session.restarts == len([step for step in lost if step < bench.session.asked])
    assert bench.metrics.value("chipwise_faults_total", kind="engine") == bench.session.restarts


def test_a_sampled_answer_draws_on_as_if_nothing_had_been() -> None:
    texts = []
    for lost in (-1, 7):
        bench = Bench(lambda step, rows, lost=lost: step == lost, slope=0.0005)
        ticket = bench.ask([5, 6], 20, temperature=1.0, seed=5)
        bench.run()
        texts.append(bench.text(ticket))
    assert texts[0] == texts[1]


@settings(max_examples=40)
@given(place=st.integers(0, 5), at=st.integers(1, 30), prompts=st.lists(st.integers(1, 100), min_size=5, max_size=5))
def test_a_request_that_kills_the_engine_is_found_and_the_others_live(place: int, at: int, prompts: list[int]) -> None:
    bench = Bench(lambda step, rows: any(row[0] == POISON and len(row) >= at for row in rows), n_slots=4)
    poison, asked = None, []
    for i, first in enumerate([*prompts, 0]):
        if i == place:
            poison = bench.ask([POISON, 1, 2], 40)
        asked.append((bench.ask([first, i], 30), [first, i]))
    assert poison is not None
    bench.run()
    end = bench.end(poison)
    assert isinstance(end, Failure)
    assert isinstance(end.error, EngineError)
    assert "given up after the engine was lost in 3 of its steps, the last time: lost 2" in str(end.error)
    for ticket, prompt in asked:
        assert bench.text(ticket) == expected(prompt, 30)
    # What killed it alone in its prompt was found without help; else the third loss was in a step of one.
    assert bench.session.restarts == 3
    assert bench.session.rows_lost[-1] == 1


def test_two_poisons_at_once() -> None:
    bench = Bench(lambda step, rows: any(row[0] == POISON and len(row) > 8 for row in rows), n_slots=4)
    poisons = [bench.ask([POISON, i], 40) for i in range(2)]
    others = [(bench.ask([i, 7], 30), [i, 7]) for i in range(4)]
    bench.run()
    assert all(isinstance(bench.end(poison), Failure) for poison in poisons)
    assert [bench.text(ticket) for ticket, _ in others] == [expected(prompt, 30) for _, prompt in others]
    assert bench.session.restarts <= 5


def test_after_the_suspects_are_cleared_requests_share_steps_again() -> None:
    def letters(history):
        return ord("a") + (sum(history) + len(history)) % 26

    bench = Bench(lambda step, rows: step in (10, 20), next_token=letters)
    asked = [(bench.ask([i, 9], 100), [i, 9]) for i in range(3)]
    rows = []
    real = NullSession.step

    def step(batch):
        rows.append(batch.rows)
        return real(bench.session, batch)

    for _ in range(25):
        bench.runner.step()
    bench.session.step = step  # type: ignore[method-assign]
    bench.run()
    texts = [text_of(alone(prompt, 100, next_token=letters)) for _, prompt in asked]
    assert [bench.text(ticket) for ticket, _ in asked] == texts
    assert 1 in rows
    assert rows.count(3) > 50


def test_an_engine_that_always_dies_ends_every_request() -> None:
    bench = Bench(lambda step, rows: True)
    asked = [bench.ask([i + 1], 5) for i in range(5)]
    bench.run()
    assert all(isinstance(bench.end(ticket), Failure) for ticket in asked)


def test_deadlines_and_cancels_go_on_while_it_restarts() -> None:
    bench = Bench(lambda step, rows: step == 9)
    bench.session.after = "restarting"
    late = bench.ask([1, 2], 50, deadline_s=5.0)
    gone, patient = bench.ask([3, 4], 50), bench.ask([5, 6], 50)
    bench.run()
    queued = bench.ask([7], 5, deadline_s=6.0)
    assert bench.runner.healthy
    bench.runner.cancel(gone)
    bench.clock.advance(7.0)
    assert not bench.runner.step()
    for ticket in (late, queued):
        end = bench.end(ticket)
        assert isinstance(end, Failure)
        assert isinstance(end.error, DeadlineError)
    assert bench.text(gone) != expected([3, 4], 50)
    bench.session.state = "up"
    bench.run()
    assert bench.text(patient) == expected([5, 6], 50)
    assert bench.runner.idle


def test_one_that_is_down_lets_nobody_wait() -> None:
    bench = Bench(lambda step, rows: step == 9)
    bench.session.after = "down"
    asked = [bench.ask([i, 2], 50) for i in range(5)]
    bench.run()
    for ticket in asked:
        end = bench.end(ticket)
        assert isinstance(end, Failure)
        assert isinstance(end.error, UnavailableError)
        assert str(end.error) == "the engine is down (it is lost); try again later, or see the server's log"
    assert not bench.runner.healthy
    with pytest.raises(UnavailableError, match="the engine is down"):
        bench.ask([1])
    bench.session.state = "up"
    assert bench.runner.healthy
    ticket = bench.ask([1, 2])
    bench.run()
    assert bench.text(ticket) == expected([1, 2])


def test_a_loss_while_nobody_asks_is_noticed_before_the_next_step() -> None:
    bench = Bench()
    prompt = list(range(1, 100))
    first = bench.ask(prompt, 3)
    bench.run()
    bench.session.lose()
    again = bench.ask(prompt, 3)
    bench.run()
    # Nothing was taken over from a slot that holds nothing any more.
    assert again.sequence.cached == 0
    assert again.losses == 0
    assert bench.text(again) == bench.text(first) == expected(prompt, 3)


def test_a_loss_in_a_copy_is_nobodys() -> None:
    bench = Bench(n_slots=3)
    asked = [(bench.ask([i, 2], 5 * (i + 1)), [i, 2], 5 * (i + 1)) for i in range(3)]
    real, copies = bench.session.move_slot, []

    def move(source: int, target: int, tokens: int) -> None:
        copies.append(source)
        if len(copies) == 1:
            bench.session.lose()
        real(source, target, tokens)

    bench.session.move_slot = move  # type: ignore[method-assign]
    bench.run()
    assert copies
    assert bench.session.restarts == 1
    assert [ticket.losses for ticket, _, _ in asked] == [0, 0, 0]
    for ticket, prompt, most in asked:
        assert bench.text(ticket) == expected(prompt, most)


def test_whose_deadline_passes_in_a_long_step_hears_so_at_once_and_only_once() -> None:
    bench = Bench()
    late, patient = bench.ask([1, 2], 50, deadline_s=3.0), bench.ask([3, 4], 50)
    queued = [bench.ask([9], 50, deadline_s=3.0) for _ in range(3)]
    for _ in range(8):
        bench.runner.step()
    real, seen = bench.session.step, []

    def long_step(batch):
        bench.clock.advance(4.0)
        assert bench.session.look is not None
        bench.session.look()
        bench.session.look()
        seen.append([isinstance(bench.events[ticket][-1], Failure) for ticket in (late, *queued)])
        bench.runner.cancel(late)  # as whoever has its answer does
        bench.session.step = real
        return real(batch)

    bench.session.step = long_step  # type: ignore[method-assign]
    bench.run()
    assert seen == [[True] * 4]
    for ticket in (late, *queued):
        end = bench.end(ticket)
        assert isinstance(end, Failure)
        assert isinstance(end.error, DeadlineError)
        assert bench.events[ticket][-1] is end
    assert bench.text(patient) == expected([3, 4], 50)
    assert bench.metrics.outcomes()["expired"] == 4


def test_with_a_fallback_those_that_ran_go_on_there_and_the_others_wait_for_the_restart() -> None:
    bench = Bench(lambda step, rows: step == 9, fallback=True)
    asked = [(bench.ask([i, 2], 20), [i, 2]) for i in range(5)]
    bench.run()
    assert [bench.text(ticket) for ticket, _ in asked] == [expected(prompt, 20) for _, prompt in asked]
    assert bench.rescue is not None
    assert bench.rescue.n_taken == 3


def test_with_a_fallback_all_go_there_once_the_engine_is_down_or_the_breaker_open() -> None:
    for kills, after in ((lambda step, rows: step == 9, "down"), (lambda step, rows: step >= 9, "up")):
        bench = Bench(kills, fallback=True)
        bench.session.after = after
        asked = [(bench.ask([i, 2], 20), [i, 2]) for i in range(20)]
        bench.run()
        assert [bench.text(ticket) for ticket, _ in asked] == [expected(prompt, 20) for _, prompt in asked]
        assert bench.rescue is not None
        assert bench.rescue.n_taken == 20
        # Three losses open the breaker; nobody pays a fourth.
        assert bench.session.restarts <= 3
        main, second = Loop(bench.runner, lambda: None), Loop(bench.fallback, lambda: None)
        lanes = Lanes(main, second, bench.rescue)
        assert lanes.healthy
        lanes.submit(Request("r", np.array([1, 2]), 5, SamplingParams(temperature=0.0), (), 0.0), lambda event: None)
        assert bench.rescue.n_taken == 21
