from __future__ import annotations

import gc
import json
import random
import tracemalloc

import numpy as np
import pytest

from chipwise.engine.null import NullSession, VirtualClock
from chipwise.errors import DeadlineError, EngineError, OverloadedError, UnavailableError
from chipwise.serve.loop.runner import Runner
from chipwise.serve.loop.ticket import Ticket
from chipwise.serve.observe.metrics import Metrics
from chipwise.serve.observe.workload import WorkloadCollector
from chipwise.serve.request.events import Event, Failure, Finish, Piece
from chipwise.serve.request.limits import Limits
from chipwise.serve.request.priority import Priority
from chipwise.serve.request.request import Request
from chipwise.serve.schedule.chunks import ChunkRule
from chipwise.serve.schedule.scheduler import Scheduler, SchedulerRules
from chipwise.serve.text.grammar import Grammars
from chipwise.serve.text.sampling import SamplingParams
from chipwise.serve.text.vocabulary import Vocabulary
from chipwise.serve.turns.turns import Turns
from tests.serve.fakes import EOS, VOCAB, alone, byte_tokenizer, null_model, says, text_of

GREEDY = SamplingParams(temperature=0.0)


class Bench:
    """A runner on a null model, driven step by step on a virtual clock."""

    def __init__(
        self,
        n_slots: int = 3,
        max_context: int = 256,
        *,
        max_waiting: int = 100,
        max_running: int | None = None,
        reserved: int = 0,
        turns: Turns | None = None,
        **options,
    ) -> None:
        self.clock = VirtualClock()
        model = null_model(n_slots, max_context, clock=self.clock, **options)
        assert isinstance(model.session, NullSession)
        self.session, self.metrics = model.session, Metrics()
        self.limits = Limits()
        rules = SchedulerRules(
            max_running=max_running,
            reserved=reserved,
            max_waiting=dict.fromkeys(Priority, max_waiting),
            chunks=ChunkRule(unmeasured_tokens=4),
        )
        scheduler = Scheduler(n_slots=n_slots, max_step_tokens=model.session.max_step_tokens, rules=rules)
        vocabulary = Vocabulary(model.tokenizer)
        self.runner = Runner(model, scheduler, self.metrics, vocabulary, self.clock, lambda: self.limits, None, turns)
        self.metrics.collect(WorkloadCollector(self.runner.workload))
        self.events: dict[Ticket, list[Event]] = {}

    def ask(
        self,
        prompt: str | list[int] = "hello\n",
        max_tokens: int = 20,
        sampling: SamplingParams = GREEDY,
        stop: tuple[str, ...] = (),
        **fields,
    ) -> Ticket:
        tokens = list(prompt.encode()) if isinstance(prompt, str) else prompt
        events: list[Event] = []
        request = Request("r", np.array(tokens, dtype=np.int64), max_tokens, sampling, stop, self.clock(), **fields)
        ticket = self.runner.submit(request, events.append)
        self.events[ticket] = events
        return ticket

    def run(self) -> None:
        while self.runner.step():
            pass

    def text(self, ticket: Ticket) -> str:
        return "".join(event.text for event in self.events[ticket] if isinstance(event, Piece))

    def metric(self, name: str) -> float:
        lines = self.metrics.text().decode().splitlines()
        return next(float(line.split()[-1]) for line in lines if line.startswith(name + " "))


def test_answer_comes_in_pieces_and_ends() -> None:
    bench = Bench(next_token=says("hi!"))
    ticket = bench.ask()
    bench.run()
    assert bench.events[ticket] == [Piece("h"), Piece("i"), Piece("!"), Finish("stop", 6, 4)]
    assert bench.runner.idle


def test_length_ends() -> None:
    bench = Bench(next_token=says("hello"))
    ticket = bench.ask(max_tokens=2)
    bench.run()
    assert bench.events[ticket][-1] == Finish("length", 6, 2)


def test_single_token_answer_never_decodes() -> None:
    bench = Bench(next_token=says("hello"))
    bench.ask(max_tokens=1)
    bench.run()
    assert bench.session.steps == 1


def test_logprobs_come_with_the_pieces() -> None:
    bench = Bench(next_token=says("h"), slope=0.5)
    ticket = bench.ask(sampling=SamplingParams(temperature=0, logprobs=2))
    bench.run()
    piece = bench.events[ticket][0]
    assert isinstance(piece, Piece)
    (entry,) = piece.tokens
    likely = -np.log(np.exp(-0.5 * np.arange(VOCAB)).sum())
    assert entry.token == ord("h")
    assert entry.logprob == pytest.approx(likely, abs=1e-5)
    assert [t for t, _ in entry.top] == [ord("h"), ord("i")]
    assert entry.top[1][1] == pytest.approx(likely - 0.5, abs=1e-5)


def test_everyone_gets_what_they_get_alone() -> None:
    chance, bench = random.Random(4), Bench(n_slots=4, max_step_tokens=16)
    waiting = []
    for _ in range(60):
        prompt = [chance.randrange(256) for _ in range(chance.randrange(1, 40))]
        waiting.append((prompt, chance.randrange(1, 60)))
    asked, gone = {}, set()
    while waiting or not bench.runner.idle:
        if waiting and chance.random() < 0.3:
            prompt, n = waiting.pop()
            asked[bench.ask(prompt, n)] = (prompt, n)
        if asked and chance.random() < 0.05:
            ticket = chance.choice(list(asked))
            if not isinstance(bench.events[ticket][-1:], list) or bench.events[ticket] == []:
                gone.add(ticket)
                bench.runner.cancel(ticket)
        bench.runner.step()
    assert bench.session.moves > 5
    assert len(gone) >= 3
    for ticket, (prompt, n) in asked.items():
        if ticket not in gone:
            said = alone(prompt, n)
            assert bench.text(ticket) == text_of(said)
            finish = bench.events[ticket][-1]
            assert isinstance(finish, Finish)
            assert (finish.prompt_tokens, finish.completion_tokens) == (len(prompt), len(said))


def test_seeded_sampling_does_not_depend_on_the_others() -> None:
    sampling = SamplingParams(temperature=1.5, top_p=0.9, seed=3)
    bench = Bench(slope=0.3)
    lonely = bench.ask("a\n", 30, sampling)
    bench.run()
    bench.ask("b\n", 50, SamplingParams(temperature=1.0))
    shared = bench.ask("a\n", 30, sampling)
    bench.ask("c\n", 10, SamplingParams(seed=9))
    bench.run()
    assert bench.text(shared) == bench.text(lonely)
    assert len(bench.text(lonely)) > 5


def test_cancelled_request_frees_its_slot_before_the_next_step() -> None:
    bench = Bench(n_slots=1, next_token=says("x" * 50))
    first, second = bench.ask(), bench.ask()
    for _ in range(3):
        bench.runner.step()
    bench.runner.cancel(first)
    seen = len(bench.events[first])
    bench.runner.step()
    assert second.sequence.slot == 0
    assert len(bench.events[first]) == seen
    bench.run()
    assert isinstance(bench.events[second][-1], Finish)
    assert bench.metric('chipwise_requests_total{outcome="cancelled"}') == 1


def test_cancel_of_a_queued_request_leaves_the_running_one_alone() -> None:
    bench = Bench(n_slots=1, next_token=says("x" * 5))
    running, queued = bench.ask(), bench.ask()
    bench.runner.step()
    bench.runner.cancel(queued)
    bench.run()
    assert bench.text(running) == "xxxxx"
    assert bench.events[queued] == []


def test_cancel_in_the_middle_of_a_prompt() -> None:
    bench = Bench(n_slots=2, max_step_tokens=4, next_token=says("ok"))
    running = bench.ask("a\n")
    bench.runner.step()
    long = bench.ask("b" * 30 + "\n")
    for _ in range(4):
        bench.runner.step()
    assert long.sequence.slot == 1
    bench.runner.cancel(long)
    last = bench.ask("c\n")
    bench.run()
    assert bench.text(running) == bench.text(last) == "ok"


def test_cancel_twice_and_after_the_end_does_nothing() -> None:
    bench = Bench(next_token=says("ok"))
    ticket, other = bench.ask(), bench.ask()
    bench.runner.cancel(other)
    bench.runner.cancel(other)
    bench.run()
    bench.runner.cancel(ticket)
    assert not bench.runner.step()
    assert bench.metric('chipwise_requests_total{outcome="stop"}') == 1
    assert bench.metric('chipwise_requests_total{outcome="cancelled"}') == 1


def test_queue_overflow_is_told_at_once() -> None:
    bench = Bench(n_slots=1, max_waiting=1)
    bench.ask()
    bench.ask()
    with pytest.raises(OverloadedError):
        bench.ask()


def test_an_emergency_that_finds_no_room_is_not_on_its_way() -> None:
    turns = Turns()
    bench = Bench(1, max_waiting=1, turns=turns)
    for _ in range(2):
        bench.ask(priority=Priority.EMERGENCY)
    with pytest.raises(OverloadedError):
        bench.ask(priority=Priority.EMERGENCY)
    assert turns._emergencies == 2


def test_failing_decode_ends_its_requests_and_the_server_goes_on() -> None:
    # Steps: 0 and 1 prefill and decode the first, 2 prefills the second, 3 decodes both.
    bench = Bench(n_slots=2, fail_steps=frozenset({3}), next_token=says("hello"))
    first = bench.ask("a\n")
    bench.runner.step()
    second, third = bench.ask("a\n"), bench.ask("a\n")
    bench.run()
    for ticket in (first, second):
        failure = bench.events[ticket][-1]
        assert isinstance(failure, Failure)
        assert str(failure.error) == "step 3 fails as told"
    assert bench.text(third) == "hello"
    assert bench.runner.idle
    assert bench.runner.healthy


def test_failing_prefill_spares_those_who_decode() -> None:
    bench = Bench(n_slots=2, fail_steps=frozenset({2}), next_token=says("hello"))
    first = bench.ask("a\n")
    bench.runner.step()
    second = bench.ask("a\n")
    bench.run()
    assert bench.text(first) == "hello"
    assert isinstance(bench.events[second][-1], Failure)


def test_failing_move_ends_all_that_run() -> None:
    bench = Bench(n_slots=3, next_token=says("hello"))
    first, second = bench.ask(max_tokens=2), bench.ask(max_tokens=9)

    def refuse(source: int, target: int, tokens: int) -> None:
        raise EngineError("cannot copy")

    move, bench.session.move_slot = bench.session.move_slot, refuse
    bench.run()
    assert isinstance(bench.events[first][-1], Finish)
    failure = bench.events[second][-1]
    assert isinstance(failure, Failure)
    assert str(failure.error) == "cannot copy"
    bench.session.move_slot = move
    third = bench.ask()
    bench.run()
    assert bench.text(third) == "hello"


def test_engine_that_keeps_failing_is_unhealthy_until_a_step_works() -> None:
    bench = Bench(fail_steps=frozenset({0, 1, 2}))
    states = []
    for _ in range(4):
        bench.ask(max_tokens=1)
        bench.run()
        states.append(bench.runner.healthy)
    assert states == [True, True, False, True]


def test_nan_logits_end_only_the_request_they_belong_to() -> None:
    bench = Bench(n_slots=2, next_token=says("hello"))
    step, poisoned = bench.session.step, []

    def poison(batch):
        output = step(batch)
        if batch.rows == 2 and not poisoned:
            poisoned.append(True)
            output.logits[1, 7] = np.nan
        return output

    bench.session.step = poison
    first, second = bench.ask(), bench.ask()
    bench.run()
    assert bench.text(first) == "hello"
    assert isinstance(bench.events[second][-1], Failure)


def test_readers_are_woken_once_a_step_before_the_next_runs() -> None:
    bench = Bench(n_slots=3, next_token=says("hello"))
    log: list[str] = []
    step = bench.session.step

    def logged(batch):
        log.append("step")
        return step(batch)

    def wake() -> None:
        log.append("wake")

    def outbox(event: Event):
        log.append(event.text if isinstance(event, Piece) else "end")
        return wake

    bench.session.step = logged
    for _ in range(2):
        request = Request("r", np.array([10], dtype=np.int64), 3, GREEDY, (), 0.0)
        bench.runner.submit(request, outbox)
    bench.run()
    steps = " ".join(log).split("step ")[1:]
    assert [step.strip() for step in steps] == ["h wake", "e wake", "h wake", "l e end wake", "l end wake"]


def test_fail_all_answers_the_waiting_too() -> None:
    bench = Bench(n_slots=1)
    tickets = [bench.ask() for _ in range(3)]
    bench.runner.step()
    bench.runner.fail_all(UnavailableError("going"))
    assert all(isinstance(bench.events[t][-1], Failure) for t in tickets)
    assert bench.runner.idle
    assert not bench.runner.step()


def test_times_are_those_of_the_clock() -> None:
    bench = Bench(n_slots=1, prefill_s=0.25, decode_s=0.5, next_token=says("abc"))
    bench.ask("12345\n")  # 6 tokens: 1.5 s, then a, b, c and the end
    bench.ask("12345\n")  # waits 3 s for the first
    bench.run()
    assert bench.metric("chipwise_time_to_first_token_seconds_sum") == pytest.approx(1.5 + 3.0 + 1.5)
    assert bench.metric("chipwise_inter_token_seconds_sum") == pytest.approx(3.0)
    assert bench.metric("chipwise_inter_token_seconds_count") == 6
    assert bench.metric('chipwise_step_seconds_sum{kind="prefill"}') == pytest.approx(3.0)
    assert bench.metric('chipwise_step_seconds_count{kind="decode"}') == 6
    assert bench.metric("chipwise_prompt_tokens_total") == 12
    assert bench.metric("chipwise_generated_tokens_total") == 8


def test_a_displaced_request_says_what_it_says_undisturbed() -> None:
    for n_slots, what in ((2, "evictions"), (3, "parkings")):
        bench = Bench(n_slots=n_slots, max_running=2)
        ordinary = [bench.ask(f"{i}\n", 40, priority=Priority.BACKGROUND) for i in range(2)]
        for _ in range(8):
            bench.runner.step()
        urgent = bench.ask("9\n", 5, priority=Priority.EMERGENCY)
        bench.runner.step()
        assert len(bench.events[urgent]) == 1, "its first token comes with the next step"
        bench.run()
        assert bench.metric(f"chipwise_{what}_total") == 1
        for i, ticket in enumerate(ordinary):
            assert bench.text(ticket) == text_of(alone(list(f"{i}\n".encode()), 40))


def test_a_grammar_is_kept_to_by_whoever_gives_way() -> None:
    grammars = Grammars(Vocabulary(byte_tokenizer()), VOCAB, (EOS,))
    grammar = grammars.of_schema({"type": "array", "items": {"enum": [1234, 5678]}, "minItems": 4, "maxItems": 4}, "")
    for n_slots, what in ((2, "evictions"), (3, "parkings")):
        bench = Bench(n_slots=n_slots, max_running=2)
        ordinary = [bench.ask(f"{i}\n", 400, priority=Priority.BACKGROUND, grammar=grammar) for i in range(2)]
        for _ in range(14):
            bench.runner.step()
        bench.ask("9\n", 5, priority=Priority.EMERGENCY)
        bench.run()
        assert bench.metric(f"chipwise_{what}_total") == 1
        undisturbed = Bench(n_slots=1)
        for i, ticket in enumerate(ordinary):
            alone_too = undisturbed.ask(f"{i}\n", 400, grammar=grammar)
            undisturbed.run()
            assert bench.text(ticket) == undisturbed.text(alone_too)
            assert set(json.loads(bench.text(ticket))) <= {1234, 5678}
            assert len(json.loads(bench.text(ticket))) == 4
            end = bench.events[ticket][-1]
            assert isinstance(end, Finish)
            assert end.reason == "stop"


def test_log_probabilities_stay_the_models_own_under_a_grammar() -> None:
    grammars = Grammars(Vocabulary(byte_tokenizer()), VOCAB, (EOS,))
    bench = Bench(next_token=says("x"), slope=0.5)
    ticket = bench.ask(sampling=SamplingParams(temperature=0, logprobs=1), grammar=grammars.of_schema({"const": 1}, ""))
    bench.run()
    piece = bench.events[ticket][0]
    assert isinstance(piece, Piece)
    (entry,) = piece.tokens
    assert entry.token == ord("1")
    assert [token for token, _ in entry.top] == [ord("x")]
    assert entry.logprob < entry.top[0][1] - 1
    assert bench.events[ticket][-1] == Finish("stop", 6, 1)


def test_a_grammar_that_no_token_can_follow_ends_the_request() -> None:
    class Twoless(Vocabulary):
        def token_bytes(self, token_id: int) -> bytes:
            return b"" if token_id == ord("2") else super().token_bytes(token_id)

    grammar = Grammars(Twoless(byte_tokenizer()), VOCAB, (EOS,)).of_schema({"enum": [12, 32]}, "")
    bench = Bench(next_token=says("hi"))
    stuck, other = bench.ask(grammar=grammar), bench.ask("b\n")
    bench.run()
    *_, failure = bench.events[stuck]
    assert isinstance(failure, Failure)
    assert "grammar" in str(failure.error)
    assert bench.text(other) == "hi"
    assert bench.runner.healthy


def test_a_deadline_ends_a_request_in_time_wherever_it_stands() -> None:
    bench = Bench(n_slots=1, decode_s=0.5, next_token=says("x" * 50))
    running, queued, patient = bench.ask(deadline_s=2.2), bench.ask(deadline_s=1.2), bench.ask(max_tokens=2)
    times = {}
    while bench.runner.step():
        for ticket in (running, queued):
            if any(isinstance(event, Failure) for event in bench.events[ticket]):
                times.setdefault(ticket, bench.clock())
    for ticket, deadline_s in ((running, 2.2), (queued, 1.2)):
        failure = bench.events[ticket][-1]
        assert isinstance(failure, Failure)
        assert isinstance(failure.error, DeadlineError)
        # Told by the end of the step that follows the one in which it passed.
        assert deadline_s <= times[ticket] <= deadline_s + 2 * 0.5
    assert isinstance(bench.events[patient][-1], Finish)
    assert bench.metric('chipwise_requests_total{outcome="expired"}') == 2


def test_what_the_hardware_does_not_allow_waits_until_it_does() -> None:
    bench = Bench(n_slots=2, next_token=says("ok"))
    bench.limits = Limits(max_batch=1)
    first, second = bench.ask(), bench.ask()
    bench.runner.step()
    bench.limits = Limits(max_batch=1, shed=frozenset({Priority.NORMAL}))
    with pytest.raises(OverloadedError):
        bench.ask()
    bench.run()
    assert bench.text(first) == "ok"
    assert bench.events[second] == []
    assert not bench.runner.idle
    bench.limits = Limits()
    bench.run()
    assert bench.text(second) == "ok"


def test_emergencies_are_known_from_their_arrival_to_whatever_end_they_find() -> None:
    turns = Turns()
    bench = Bench(2, turns=turns)
    emergency = {"priority": Priority.EMERGENCY}
    whole, cancelled, late, failed = (
        bench.ask(max_tokens=2, **emergency),
        bench.ask(**emergency),
        bench.ask(deadline_s=bench.clock() + 0.5, **emergency),
        bench.ask(**emergency),
    )
    bench.ask(priority=Priority.INTERACTIVE, max_tokens=200)
    assert turns._emergencies == 4
    while not (bench.events[whole] and isinstance(bench.events[whole][-1], Finish)):
        bench.runner.step()
    assert turns._emergencies == 3
    bench.runner.cancel(cancelled)
    bench.runner.step()
    assert turns._emergencies == 2
    bench.clock.advance(1.0)
    bench.runner.step()
    assert isinstance(bench.events[late][-1], Failure)
    assert turns._emergencies == 1
    bench.runner.fail_all(EngineError("it is over"))
    assert isinstance(bench.events[failed][-1], Failure)
    assert turns._emergencies == 0
    assert bench.runner.idle


def test_gauges_show_the_present() -> None:
    bench = Bench(n_slots=2, next_token=says("x" * 50))
    for _ in range(3):
        bench.ask("123\n")
    for _ in range(3):
        bench.runner.step()
    names = ("slots", "running_requests", "queue_depth_requests", "kv_used_tokens")
    assert [bench.metric(f"chipwise_{name}") for name in names] == [2, 2, 1, 4 + 1 + 4]


def test_a_token_leaves_no_memory_behind() -> None:
    bench = Bench(n_slots=2, max_context=4000, next_token=lambda history: ord("x"))
    tickets = [bench.ask(max_tokens=3000, stop=("zz",)) for _ in range(2)]

    def steps(count: int) -> None:
        for _ in range(count):
            bench.runner.step()
        for ticket in tickets:
            bench.events[ticket].clear()
        # What the null model itself keeps of a token is not the server's.
        for slot in bench.session._slots:
            slot.hashes[:-1] = [0] * (len(slot.hashes) - 1)
        gc.collect()

    steps(200)
    tracemalloc.start()
    steps(1)
    before = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, "*/chipwise/serve/*")])
    steps(1000)
    after = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, "*/chipwise/serve/*")])
    tracemalloc.stop()
    grown = sum(stat.size_diff for stat in after.compare_to(before, "filename"))
    assert grown < 2000  # 2000 tokens: less than a byte each
