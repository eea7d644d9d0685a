"""The scheduler drives llama.cpp's batches: whoever shares it gets what they get alone, whatever gives way to whom."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from types import ModuleType

import numpy as np
import pytest

from chipwise.engine.batch import Batch
from chipwise.engine.llamacpp.session import LlamaCppSession
from chipwise.engine.null import NullOptions, NullSession
from chipwise.serve.faults.scrub import scrub
from chipwise.serve.loop.runner import Runner
from chipwise.serve.models.prefix_proof import reuses_exactly
from chipwise.serve.observe.metrics import Metrics
from chipwise.serve.request.events import Event, Failure, Finish, Piece
from chipwise.serve.request.priority import Priority
from chipwise.serve.request.request import Request
from chipwise.serve.schedule.chunks import ChunkRule
from chipwise.serve.schedule.scheduler import Scheduler, SchedulerRules
from chipwise.serve.schedule.speculation import make_speculation
from chipwise.serve.text.sampling import SamplingParams
from chipwise.serve.text.vocabulary import Vocabulary
from tests.engine.llamacpp.conftest import OpenFake, fake, open_fake
from tests.serve.fakes import null_model

__all__ = ["fake", "open_fake"]

GREEDY = SamplingParams(temperature=0.0)
# Every token is a letter: an answer that ends within a character would say nothing of its last tokens.
VOCAB = 128


def alone(prompt: list[int], max_tokens: int) -> str:
    """What the model says when it serves one request only, each prompt fed at once."""
    session = NullSession(1, 512, NullOptions(vocab_size=VOCAB))
    tokens, past, said = prompt, 0, []
    for _ in range(max_tokens):
        logits = session.step(Batch(0, np.array([tokens], np.int64), np.array([past], np.int64))).logits[0]
        past += len(tokens)
        tokens = [int(logits.argmax())]
        said += tokens
    return bytes(said).decode()


@dataclass
class Asked:
    """A request and what came of it."""

    prompt: list[int]
    max_tokens: int
    events: list[Event]

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, Piece))

    def check(self) -> None:
        assert isinstance(self.events[-1], Finish)
        assert self.text == alone(self.prompt, self.max_tokens)


class Bench:
    """A runner over llama.cpp, driven step by step, on a clock that goes on whenever it is read."""

    def __init__(self, session: LlamaCppSession, *, speculate: bool = False) -> None:
        self.now_s, model = 0.0, replace(null_model(), session=session)
        vocabulary = Vocabulary(model.tokenizer)
        rules = SchedulerRules(max_running=session.n_slots - 1, chunks=ChunkRule(unmeasured_tokens=8))
        speculation = make_speculation(session, model.tokenizer, vocabulary) if speculate else None
        self.scheduler = Scheduler(
            n_slots=session.n_slots, max_step_tokens=session.max_step_tokens, rules=rules, speculation=speculation
        )
        self.runner = Runner(model, self.scheduler, Metrics(), vocabulary, self.clock)
        self.asked: list[Asked] = []

    def ask(self, prompt: list[int], max_tokens: int, priority: Priority = Priority.NORMAL) -> Asked:
        one = Asked(prompt, max_tokens, [])
        fields = {"priority": priority}
        self.runner.submit(
            Request("r", np.array(prompt, np.int64), max_tokens, GREEDY, (), self.clock(), **fields), one.events.append
        )
        self.asked.append(one)
        return one

    def clock(self) -> float:
        self.now_s += 0.001
        return self.now_s

    def run(self) -> None:
        while self.runner.step():
            pass


@pytest.mark.parametrize("speculate", [False, True])
def test_everyone_gets_what_they_get_alone(open_fake: OpenFake, speculate: bool) -> None:
    chance, bench = random.Random(4), Bench(open_fake(vocab=VOCAB), speculate=speculate)
    beginning = [chance.randrange(VOCAB) for _ in range(90)]
    left = 60
    while left or not bench.runner.idle:
        if left and chance.random() < 0.2:
            own = [chance.randrange(VOCAB) for _ in range(chance.randrange(2, 40))]
            prompt = [*beginning[: chance.choice([0, 40, 90])], *own]
            bench.ask(prompt, chance.randrange(1, 60), chance.choice(list(Priority)))
            left -= 1
        bench.runner.step()
    for one in bench.asked:
        one.check()
    # Prompts shared beginnings, urgent ones displaced others, and those kept their KV or lost it.
    assert bench.scheduler.n_reused > 500
    assert min(bench.scheduler.n_displaced) > 0


def test_one_that_gives_way_keeps_its_sequence(open_fake: OpenFake, fake: ModuleType) -> None:
    session = open_fake(n_slots=2, vocab=VOCAB)
    bench = Bench(session)
    parked = bench.ask([*range(60)], 30, Priority.BACKGROUND)
    for _ in range(12):
        bench.runner.step()
    urgent = bench.ask([*range(100, 110)], 5, Priority.EMERGENCY)
    bench.run()
    parked.check()
    urgent.check()
    assert bench.scheduler.n_displaced == (1, 0)
    # Its prompt was fed once: 60 tokens, one for each but the last of its answer, and those of the other.
    fed = sum(len(call) for call in fake.context_of(session._opened.context).batches)
    assert fed == 60 + 29 + 10 + 4


def test_a_step_that_llama_cpp_refuses_fails_its_request_and_no_other(open_fake: OpenFake) -> None:
    bench = Bench(open_fake(vocab=VOCAB, results={"0": 1}))
    first, second = bench.ask([1, 2, 3], 4), bench.ask([4, 5, 6], 4)
    bench.run()
    assert isinstance(first.events[-1], Failure)
    assert "no room in its KV cache" in str(first.events[-1].error)
    second.check()


def test_nan_is_overwritten(open_fake: OpenFake, fake: ModuleType) -> None:
    session = open_fake(vocab=VOCAB, nan=9)
    bench = Bench(session)
    spoiled, sound = bench.ask([8, 9, 10], 4), bench.ask([1, 2, 3], 4)
    bench.run()
    assert "hold NaN" in str(spoiled.events[-1].error)
    sound.check()
    assert not any(9 in fake.context_of(session._opened.context).sequences.held(slot) for slot in range(4))
    scrub(session, 3, 0)


def test_prefixes_are_reused_where_that_is_exact(open_fake: OpenFake) -> None:
    assert reuses_exactly(open_fake(vocab=VOCAB))
