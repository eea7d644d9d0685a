"""Whatever is guessed, what is said is what would have been said."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chipwise.engine import Session
from chipwise.engine.null import NullSession, VirtualClock
from chipwise.engine.onnxruntime import OnnxRuntimeEngine
from chipwise.engine.session import draft_limits
from chipwise.serve.request.events import Failure, Finish
from chipwise.serve.request.priority import Priority
from chipwise.serve.request.ring import Ring
from chipwise.serve.text.sampling import SamplingParams
from tests.model.decoder.random_models import VOCAB as TINY_VOCAB
from tests.model.decoder.random_models import write_folder
from tests.model.decoder.sessions import CONTEXT, fused_file
from tests.serve.fakes import VOCAB, alone, says, text_of
from tests.serve.fragile import FragileSession
from tests.serve.speculation.wild import Wild, WildBench, null_session

TOLD = SamplingParams(temperature=0, logprobs=2)
PROMPTS = st.lists(st.integers(1, TINY_VOCAB - 1), min_size=1, max_size=12)
SAMPLINGS = st.sampled_from(
    [TOLD, SamplingParams(1.0, 0.9, seed=5, logprobs=2), SamplingParams(1.7, seed=8, logprobs=0)]
)


@pytest.fixture(scope="module")
def tiny_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A tiny random decoder in ONNX Runtime, fused."""
    files = {
        "decoder": fused_file(write_folder("llama", tmp_path_factory.mktemp("llama")), tmp_path_factory.mktemp("t"))
    }
    session = OnnxRuntimeEngine().open(files, n_slots=3, max_context=CONTEXT, options={"threads": 1})
    yield session
    session.close()


@given(
    asked=st.lists(st.tuples(PROMPTS, st.integers(1, 30), SAMPLINGS), min_size=1, max_size=3),
    seed=st.integers(0, 1000),
)
@settings(max_examples=10, deadline=None, derandomize=True)
def test_a_decoder_says_the_same_with_random_drafts(tiny_session: Session, asked: list, seed: int) -> None:
    session = tiny_session
    tokens, rows = draft_limits(session)
    assert (tokens, rows) == (16, 1)
    plain = WildBench(session, None, max_running=rows)
    expected = [plain.ask(prompt, most, sampling) for prompt, most, sampling in asked]
    plain.run()
    wild = Wild(random.Random(seed), tokens=min(tokens, 8), rows=rows, context=CONTEXT, vocab=TINY_VOCAB)
    wild.right = {str(i): plain.tokens(ticket) for i, ticket in enumerate(expected)}
    guessed = WildBench(session, wild, max_running=rows)
    found = [guessed.ask(p, most, sampling, name=str(i)) for i, (p, most, sampling) in enumerate(asked)]
    guessed.run()
    for one, other in zip(found, expected, strict=True):
        assert guessed.text(one) == plain.text(other)
        assert replace(guessed.end(one), cached_tokens=0) == replace(plain.end(other), cached_tokens=0)
        assert guessed.logprobs(one) == plain.logprobs(other)


@given(
    answers=st.lists(st.tuples(PROMPTS, st.integers(2, 25), SAMPLINGS), min_size=2, max_size=4),
    cuts=st.lists(st.tuples(st.integers(1, 12), PROMPTS), min_size=1, max_size=4),
    seed=st.integers(0, 1000),
)
@settings(max_examples=10, deadline=None, derandomize=True)
def test_who_lost_its_kv_to_the_urgent_says_the_same_to_the_last_bit(
    tiny_session: Session, answers: list, cuts: list, seed: int
) -> None:
    """Nobody is parked, so that whoever gives way is fed anew: the prompt as a prompt, what was said as it was said."""
    plain = WildBench(tiny_session, None, max_running=1)
    expected = [plain.ask(prompt, most, sampling) for prompt, most, sampling in answers]
    plain.run()
    wild = Wild(random.Random(seed), tokens=8, rows=1, context=CONTEXT, vocab=TINY_VOCAB)
    wild.right = {str(i): plain.tokens(ticket) for i, ticket in enumerate(expected)}
    bench = WildBench(tiny_session, wild, max_running=3)
    found = [
        bench.ask(prompt, most, sampling, name=str(i), priority=Priority.BACKGROUND)
        for i, (prompt, most, sampling) in enumerate(answers)
    ]
    for steps, prompt in cuts:
        for _ in range(steps):
            bench.runner.step()
        for _ in range(3):
            bench.ask(prompt, 2, TOLD, name="urgent", priority=Priority.EMERGENCY)
    bench.run()
    for one, other in zip(found, expected, strict=True):
        assert bench.logprobs(one) == plain.logprobs(other)


@pytest.mark.parametrize("seed", range(6))
def test_everyone_gets_what_they_get_alone_whatever_happens(seed: int) -> None:
    """Prompts that begin alike, rings, giving way with and without a slot, and clients that leave, in one bench."""
    chance, ring = random.Random(seed), Ring(context=64, sinks=4)
    session = null_session(n_slots=4)
    wild = Wild(chance, tokens=6, rows=3, context=64)
    bench = WildBench(session, wild, max_running=3)
    shared = [chance.randrange(256) for _ in range(24)]
    waiting, asked, gone, right = [], {}, set(), {}
    for i in range(40):
        prompt = shared[: chance.randrange(1, 24)] + [chance.randrange(256) for _ in range(chance.randrange(1, 12))]
        ringed = chance.random() < 0.3
        most = chance.randrange(1, 90 if ringed else 28)
        waiting.append((str(i), prompt, most, {"ring": ring} if ringed else {}))
        right[str(i)] = ring_answer(ring, prompt, most) if ringed else alone(prompt, most)
    wild.right = right
    while waiting or not bench.runner.idle:
        if waiting and chance.random() < 0.3:
            name, prompt, most, fields = waiting.pop()
            asked[bench.ask(prompt, most, name=name, priority=chance.choice(list(Priority)), **fields)] = name
        if asked and chance.random() < 0.03:
            ticket = chance.choice(list(asked))
            if bench.runner.idle or isinstance((bench.events[ticket] or [None])[-1], Finish):
                continue
            gone.add(ticket)
            bench.runner.cancel(ticket)
        bench.runner.step()
        for slot, held in enumerate(bench.scheduler.contents._held):
            assert held is None or session.held(slot)[: held.fed] == held.tokens[: held.fed].tolist()
    assert wild.n_right > 300
    assert wild.n_checked > wild.n_right + 100
    assert bench.scheduler.n_reused > 50
    assert sum(bench.scheduler.n_displaced) > 3
    for ticket, name in asked.items():
        if ticket not in gone:
            assert bench.text(ticket) == text_of(right[name])
            assert bench.end(ticket).completion_tokens == len(right[name])
    assert len(gone) < 30


def ring_answer(ring: Ring, prompt: list[int], count: int) -> list[int]:
    """What is said if what stays is sent as a new prompt whenever the ring is full."""
    said: list[int] = []
    held = ring.cut(np.array(prompt)).tolist()
    while len(said) < count and 257 not in said:
        part = alone(held, min(count - len(said), ring.context + 1 - len(held)))
        said += part
        held = [*ring.cut(np.array([*held, *part[:-1]])).tolist(), part[-1]]
    return said


def both(session_options: dict, prompt: str, most: int, sampling: SamplingParams = TOLD, **fields):
    """The events of a request without guesses, and with guesses that know the text and what would follow it."""
    plain = WildBench(null_session(**session_options), None)
    first = plain.ask(list(prompt.encode()), most, sampling, **fields)
    plain.run()
    longer = WildBench(null_session(**session_options), None)
    whole = longer.ask(list(prompt.encode()), 40, TOLD)
    longer.run()
    wild = Wild(random.Random(3), tokens=12, rows=4, context=64)
    wild.right = {"r": longer.tokens(whole)}
    guessed = WildBench(null_session(**session_options), wild)
    second = guessed.ask(list(prompt.encode()), most, sampling, **fields)
    guessed.run()
    return plain.events[first], guessed.events[second], guessed


@pytest.mark.parametrize("most", [1, 2, 3, 7, 40])
@pytest.mark.parametrize("stop", [(), ("lo w",), ("world", "hello")])
def test_ends_are_where_they_were(most: int, stop: tuple[str, ...]) -> None:
    model = {"next_token": says("say hello world, hello world"), "slope": 0.4}
    plain, guessed, bench = both(model, "go\n", most, stop=stop)
    assert guessed == plain
    assert isinstance(plain[-1], Finish)
    # Nothing of the slots is held any more, and the metrics count what was said, not what was guessed.
    assert bench.scheduler.holding == ()
    assert bench.metrics.value("chipwise_generated_tokens_total") == plain[-1].completion_tokens


def test_a_bad_row_among_the_guessed_ones_ends_the_request_only() -> None:
    session = null_session(next_token=says("hello hello hello"))
    wild = Wild(random.Random(0), tokens=4, rows=4, context=64)
    wild.right = {"a": list(b"hello hello hello")}
    bench = WildBench(session, wild)
    step, poisoned = session.step, []

    def poison(batch):
        output = step(batch)
        if batch.rows == 2 and batch.used is not None and batch.used[0] > 2 and not poisoned:
            poisoned.append(True)
            output.logits[0, 2, 5] = np.nan
            # What lies in padding is nobody's.
            output.logits[1, int(batch.used[1]) :] = np.nan
        return output

    session.step = poison
    first, second = bench.ask([10], 17, name="a"), bench.ask([11, 10], 17, name="b")
    bench.run()
    assert poisoned
    assert isinstance(bench.end(first), Failure)
    assert bench.text(second) == "hello hello hello"


def test_a_failing_step_with_drafts_ends_its_requests_and_the_server_goes_on() -> None:
    session = null_session(next_token=says("hello"), fail_steps=frozenset({3}))
    bench = WildBench(session, Wild(random.Random(2), tokens=4, rows=4, context=64))
    first = bench.ask([10], 5)
    bench.run()
    assert isinstance(bench.end(first), Failure)
    second = bench.ask([10], 6)
    bench.run()
    assert bench.text(second) == "hello"


@given(lost=st.sets(st.integers(2, 20), max_size=2), seed=st.integers(0, 100))
@settings(max_examples=20, deadline=None)
def test_an_engine_that_is_lost_in_the_middle_of_drafts_changes_nothing(lost: set[int], seed: int) -> None:
    session = FragileSession(3, 64, null_session(clock=VirtualClock())._options, lambda step, rows: step in lost)
    wild = Wild(random.Random(seed), tokens=6, rows=3, context=64)
    bench = WildBench(session, wild)
    prompts = {str(i): [i, 40 + i, seed] for i in range(3)}
    wild.right = {name: alone(prompt, 25) for name, prompt in prompts.items()}
    asked = {name: bench.ask(prompt, 25, name=name) for name, prompt in prompts.items()}
    bench.run()
    for name, ticket in asked.items():
        assert isinstance(bench.end(ticket), Finish)
        assert bench.text(ticket) == text_of(wild.right[name])
    assert wild.n_right > 0


def test_clients_are_charged_for_every_token_they_got() -> None:
    """Of two clients with one slot, who was guessed well waits for who was not."""
    session = null_session(1, next_token=says("x" * 50))
    wild = Wild(random.Random(1), tokens=8, rows=1, context=64)
    wild.right = {"a": [ord("x")] * 50}
    bench = WildBench(session, wild)
    bench.ask([9, 10], 20, name="a", client="a")
    bench.ask([8, 10], 20, name="b", client="b")
    for _ in range(3):
        bench.runner.step()
    (running,) = bench.scheduler.running
    served = bench.scheduler._shares.served("a")
    bench.run()
    assert running.said > 4
    # Two prompt tokens at 1, every token that was fed at 2; the latest are charged with the next step.
    assert 2 <= served <= 2 + 2 * (running.said - 1)
    assert wild.n_right > 5


def test_samples_have_the_distribution_of_the_model() -> None:
    """The second and third token of many answers whose first guess is always the likeliest one, by a chi-square."""
    slope, n, likely = 0.7, 1500, 24
    session = null_session(1, 16, slope=slope, next_token=lambda history: ord("x"))
    wild = Wild(random.Random(0), tokens=3, rows=1, context=16)
    wild.right = {"r": [ord("x")] * 4}
    bench = WildBench(session, wild)
    sampling = SamplingParams(temperature=1.0, logprobs=0)
    counts = np.zeros((4, likely + 1))
    for seed in range(n):
        ticket = bench.ask([7, 10], 4, replace(sampling, seed=seed))
        bench.run()
        for place, token in enumerate(bench.tokens(ticket)):
            counts[place, min((token - ord("x")) % VOCAB, likely)] += 1
    assert wild.n_right > n / 2
    assert wild.n_checked > 1.5 * wild.n_right
    weights = np.exp(-slope * np.arange(VOCAB))
    chances = weights / weights.sum()
    expected = n * np.append(chances[:likely], chances[likely:].sum())
    # Cells of fewer than 5 are put together. 99.99 % of chi-squares of 12 to 14 degrees of freedom lie below 44.
    cells = int((expected >= 5).sum()) - 1
    for place in counts:
        grouped, wanted = (np.append(x[:cells], x[cells:].sum()) for x in (place, expected))
        assert ((grouped - wanted) ** 2 / wanted).sum() < 44, place


def test_a_null_session_that_takes_no_drafts_is_never_asked() -> None:
    assert draft_limits(NullSession(2, 16, null_session()._options)) == (15, 2)
    assert draft_limits(null_session(max_draft_tokens=0))[0] == 0
