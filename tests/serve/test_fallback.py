"""Requests that the engine fails go on in the fallback, and their clients see one text."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chipwise.engine import Batch
from chipwise.engine.null import NullOptions, NullSession, VirtualClock
from chipwise.errors import BundleError, EngineError
from chipwise.serve.faults.breaker import Breaker, BreakerRules
from chipwise.serve.loop.rescue import Rescue
from chipwise.serve.loop.runner import Runner
from chipwise.serve.loop.ticket import Ticket
from chipwise.serve.models.late_session import LateSession
from chipwise.serve.observe.metrics import Metrics
from chipwise.serve.request.events import Event, Failure, Finish, Piece
from chipwise.serve.request.request import Request
from chipwise.serve.schedule.scheduler import Scheduler
from chipwise.serve.text.grammar import Grammar, Grammars
from chipwise.serve.text.sampling import SamplingParams
from chipwise.serve.text.vocabulary import Vocabulary
from tests.serve.fakes import EOS, VOCAB, alone, byte_tokenizer, null_model, text_of
from tests.serve.live import live


class Pair:
    """An engine with planted faults and its fallback, driven step by step on one virtual clock."""

    def __init__(self, *, n_slots: int = 3, rules: BreakerRules | None = None, **options) -> None:
        self.clock = VirtualClock()
        model = null_model(n_slots, clock=self.clock, **options)
        assert isinstance(model.session, NullSession)
        self.session, self.metrics = model.session, Metrics()
        self.second = NullSession(n_slots, 256, NullOptions(vocab_size=VOCAB, max_step_tokens=8))
        vocabulary = Vocabulary(model.tokenizer)
        self.fallback = Runner(
            replace(model, session=self.second), self._scheduler(self.second), self.metrics, vocabulary, self.clock
        )
        self.rescue = Rescue(self._adopt, self.clock, Breaker(rules))
        self.runner = Runner(
            model, self._scheduler(model.session), self.metrics, vocabulary, self.clock, rescue=self.rescue
        )
        self.events: dict[Ticket, list[Event]] = {}

    def _scheduler(self, session: NullSession) -> Scheduler:
        return Scheduler(n_slots=session.n_slots, max_step_tokens=session.max_step_tokens)

    def _adopt(self, ticket: Ticket) -> bool:
        self.fallback.adopt(ticket)
        return True

    def ask(self, prompt: str, max_tokens: int = 12, grammar: Grammar | None = None, **sampling) -> Ticket:
        events: list[Event] = []
        params = SamplingParams(**{"temperature": 0.0, **sampling})
        tokens = np.array(list(prompt.encode()), np.int64)
        request = Request(prompt, tokens, max_tokens, params, (), self.clock(), grammar=grammar)
        ticket = self.runner.submit(request, events.append)
        self.events[ticket] = events
        return ticket

    def run(self) -> None:
        while self.runner.step() | self.fallback.step():
            pass

    def text(self, ticket: Ticket) -> str:
        return "".join(event.text for event in self.events[ticket] if isinstance(event, Piece))

    def faults(self, kind: str) -> float:
        return self.metrics.value("chipwise_faults_total", kind=kind)


def expected(prompt: str, max_tokens: int = 12) -> str:
    return text_of(alone(list(prompt.encode()), max_tokens))


@pytest.mark.parametrize(("value", "kind"), [(np.nan, "nan"), (np.inf, "infinite"), (0.0, "zeros"), (2.5, "equal")])
@pytest.mark.parametrize("step", [0, 1, 5])
def test_a_request_goes_on_from_its_last_good_token(value: float, kind: str, step: int) -> None:
    pair = Pair(spoil_steps={step: value})
    ticket = pair.ask("hello\n")
    pair.run()
    assert pair.text(ticket) == expected("hello\n")
    (finish,) = (event for event in pair.events[ticket] if not isinstance(event, Piece))
    assert isinstance(finish, Finish)
    assert finish.completion_tokens == len(alone(list(b"hello\n"), 12))
    assert pair.faults(kind) == 1
    assert pair.rescue.n_taken == 1
    assert pair.session.steps == step + 1
    assert pair.runner.idle
    assert pair.fallback.idle


def test_a_failing_step_does_the_same() -> None:
    pair = Pair(fail_steps=frozenset({4}))
    asked = [pair.ask(f"{i}\n") for i in range(2)]
    pair.run()
    assert [pair.text(ticket) for ticket in asked] == [expected("0\n"), expected("1\n")]
    assert pair.faults("engine") == 1
    assert pair.rescue.n_taken == 2


def test_only_the_faulty_row_leaves() -> None:
    pair, step = Pair(), 0
    real: Callable = pair.session.step

    def poison(batch):
        nonlocal step
        output = real(batch)
        if batch.rows == 3 and not step:
            step = 1
            output.logits[1, 7] = np.nan
        return output

    pair.session.step = poison  # type: ignore[method-assign]
    asked = [pair.ask(f"{i}\n") for i in range(3)]
    pair.run()
    assert [pair.text(ticket) for ticket in asked] == [expected(f"{i}\n") for i in range(3)]
    assert pair.rescue.n_taken == 1


def test_infinity_of_the_model_is_told_from_that_of_a_grammar() -> None:
    grammars = Grammars(Vocabulary(byte_tokenizer()), VOCAB, (EOS,))
    grammar = grammars.of_schema({"type": "array", "items": {"enum": [1234, 5678]}, "minItems": 4, "maxItems": 4}, "")
    texts = []
    for spoiled in (None, 6):
        pair = Pair()
        real: Callable = pair.session.step

        def poison(batch, pair=pair, real=real, spoiled=spoiled):
            step, output = pair.session.steps, real(batch)
            if step == spoiled:
                # A letter, which the grammar leaves out by the same number.
                output.logits[0, ord("a")] = -np.inf
            return output

        pair.session.step = poison  # type: ignore[method-assign]
        ticket = pair.ask("hello\n", 200, grammar=grammar)
        pair.run()
        texts.append(pair.text(ticket))
        assert pair.faults("infinite") == pair.rescue.n_taken == (spoiled is not None)
    assert texts[0] == texts[1]
    assert len(json.loads(texts[0])) == 4


def test_a_sampled_answer_draws_on_as_if_nothing_had_been() -> None:
    texts = []
    for spoil in ({}, {6: np.nan}):
        pair = Pair(spoil_steps=spoil, slope=0.0005)
        pair.second._ramp = pair.session._ramp
        ticket = pair.ask("a\n", 20, temperature=1.0, seed=5)
        pair.run()
        texts.append(pair.text(ticket))
    assert texts[0] == texts[1]


def test_a_faulty_prompt_is_taken_over_by_nobody() -> None:
    pair = Pair(n_slots=2, spoil_steps={0: np.nan})
    prompt = "x" * 100 + "\n"
    first = pair.ask(prompt)
    pair.run()
    assert not any(pair.session.held(slot)[:100] == [ord("x")] * 100 for slot in range(2)), "scrubbed"
    again = pair.ask(prompt)
    pair.run()
    assert again.sequence.cached == 0
    assert pair.text(first) == pair.text(again) == expected(prompt)


@settings(max_examples=30)
@given(st.dictionaries(st.integers(0, 60), st.sampled_from([np.nan, 0.0, np.inf]), max_size=8), st.integers(1, 3))
def test_whatever_fails_everybody_gets_the_text_they_get_alone(spoil: dict[int, float], n_slots: int) -> None:
    pair = Pair(n_slots=n_slots, spoil_steps=spoil)
    asked = {f"{i}{'y' * i}\n": pair.ask(f"{i}{'y' * i}\n") for i in range(6)}
    pair.run()
    for prompt, ticket in asked.items():
        assert pair.text(ticket) == expected(prompt)
        assert isinstance(pair.events[ticket][-1], Finish)


def test_a_fault_in_the_fallback_too_is_an_error() -> None:
    pair = Pair(spoil_steps={0: np.nan})
    pair.second._options = replace(pair.second._options, spoil_steps={2: 0.0})
    ticket = pair.ask("hello\n")
    pair.run()
    failure = pair.events[ticket][-1]
    assert isinstance(failure, Failure)
    assert "logits are all zero" in str(failure.error)
    assert pair.faults("zeros") == 1


def test_one_that_is_cancelled_while_it_changes_over_is_gone() -> None:
    pair = Pair(spoil_steps={1: np.nan})
    ticket = pair.ask("hello\n")
    pair.runner.step()
    ticket.gone = True  # after the runner looked for the cancelled ones
    pair.runner.step()
    pair.run()
    assert pair.second.steps == 0
    assert pair.fallback.idle
    assert not isinstance(pair.events[ticket][-1], Finish | Failure)


def test_the_server_sends_new_requests_past_a_broken_engine() -> None:
    options = NullOptions(vocab_size=VOCAB)
    opened = []

    def create() -> NullSession:
        opened.append(NullSession(3, 256, options))
        return opened[-1]

    late = LateSession(create, n_slots=3, max_context=256, vocab_size=VOCAB)
    model = replace(null_model(3, spoil_steps=dict.fromkeys(range(3), np.nan)), fallback=late)
    with live(model) as server:
        assert not opened
        body = {"prompt": "hello\n", "max_tokens": 8, "temperature": 0}
        for _ in range(4):
            answer = server.http.post("/v1/completions", json=body)
            assert answer.status_code == 200
            assert answer.json()["choices"][0]["text"] == expected("hello\n", 8)
        assert server.session.steps == 3, "the fourth did not ask the engine"
        assert len(opened) == 1
        assert server.metric("chipwise_breaker_state") == 2
        assert server.metric("chipwise_fallbacks_total") == 4
        assert server.metric('chipwise_faults_total{kind="nan"}') == 3
        assert server.http.get("/health").status_code == 200


def test_a_late_session_opens_once_and_feeds_long_prompts_in_pieces() -> None:
    made = []

    def create() -> NullSession:
        made.append(NullSession(1, 64, NullOptions(vocab_size=VOCAB, max_step_tokens=5)))
        return made[-1]

    late = LateSession(create, n_slots=1, max_context=64, vocab_size=VOCAB)
    late.close()
    runner_said = alone(list(b"0123456789012\n"), 4)
    from_late, tokens, past = [], list(b"0123456789012\n"), 0
    while len(from_late) < len(runner_said):
        logits = late.step(Batch(0, np.array([tokens]), np.array([past]))).logits
        past, tokens = past + len(tokens), [int(logits[0].argmax())]
        from_late += tokens
    assert from_late == runner_said
    assert len(made) == 1


def test_a_fallback_that_cannot_be_opened_is_an_error_of_the_engine() -> None:
    def create() -> NullSession:
        raise BundleError("the self-test failed", where="b", remedy="build it again")

    late = LateSession(create, n_slots=1, max_context=64, vocab_size=VOCAB)
    with pytest.raises(EngineError, match=r"b: the fallback cannot be opened .the self-test failed.; build it again"):
        late.move_slot(0, 0, 0)
    other = LateSession(lambda: NullSession(1, 64, NullOptions()), n_slots=1, max_context=64, vocab_size=VOCAB)
    with pytest.raises(EngineError, match="256 logits a row"):
        other.open()
