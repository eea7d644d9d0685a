"""A runner whose answers are guessed at random, right and wrong."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from chipwise.engine import Session
from chipwise.engine.null import NullOptions, NullSession, VirtualClock
from chipwise.engine.session import draft_limits
from chipwise.serve.loop.runner import Runner
from chipwise.serve.loop.ticket import Ticket
from chipwise.serve.models.served_model import ServedModel
from chipwise.serve.observe.metrics import Metrics
from chipwise.serve.observe.workload import WorkloadCollector
from chipwise.serve.request.events import Event, Failure, Finish, Piece
from chipwise.serve.request.request import Request
from chipwise.serve.schedule.chunks import ChunkRule
from chipwise.serve.schedule.scheduler import Scheduler, SchedulerRules
from chipwise.serve.schedule.speculation import Speculation
from chipwise.serve.schedule.step_cost import StepCost
from chipwise.serve.speculation.draft import NO_DRAFT, Draft
from chipwise.serve.text.sampling import SamplingParams
from chipwise.serve.text.vocabulary import Vocabulary
from tests.serve.fakes import VOCAB, byte_tokenizer
from tests.serve.fragile import FragileSession

GREEDY = SamplingParams(temperature=0)


class Wild(Speculation):
    """Guesses by chance, within what a session takes: what a request will say, as far as that is known, and noise.

    Attributes:
        right: By request id, the tokens it will say.
    """

    def __init__(self, chance: random.Random, *, tokens: int, rows: int, context: int, vocab: int = VOCAB) -> None:
        self._chance, self._most, self._rows, self._context, self._vocab = chance, tokens, rows, context, vocab
        self.right: Mapping[str, Sequence[int]] = {}
        self.n_checked = self.n_right = 0

    def drafter(self, request: Request, constraint: Any) -> Any:
        return object()

    def complete(self, sequence: Any) -> None:
        pass

    def plan(self, sequences: Any, cost: StepCost, budget_s: float) -> list[Draft]:
        if len(sequences) > self._rows:
            return [NO_DRAFT] * len(sequences)
        most = min(self._most, *(self._context - one.known for one in sequences))
        return [self._guess(one, min(most, one.request.max_tokens - one.said - 1)) for one in sequences]

    def checked(self, sequence: Any, draft: Draft, right: int) -> None:
        self.n_checked += len(draft)
        self.n_right += right

    def _guess(self, one: Any, most: int) -> Draft:
        if most < 1 or self._chance.random() < 0.2:
            return NO_DRAFT
        will_say = list(self.right.get(one.request.id, ()))[one.said :]
        tokens = [
            will_say[i] if i < len(will_say) and self._chance.random() < 0.8 else self._chance.randrange(self._vocab)
            for i in range(self._chance.randint(1, most))
        ]
        return Draft(tuple(tokens), ("short",) * len(tokens))


class WildBench:
    """A runner over a session, driven step by step."""

    def __init__(self, session: Session, speculation: Speculation | None, *, tokenizer=None, **rules) -> None:
        self.session, self.clock, self.metrics = session, getattr(session, "clock", VirtualClock()), Metrics()
        tokenizer = tokenizer or byte_tokenizer()
        process = session if isinstance(session, FragileSession) else None
        model = ServedModel("tiny", session, tokenizer, None, 0, process=process)
        rules = {"chunks": ChunkRule(unmeasured_tokens=4), **rules}
        self.scheduler = Scheduler(
            n_slots=session.n_slots,
            max_step_tokens=session.max_step_tokens,
            rules=SchedulerRules(**rules),
            speculation=speculation,
            draft_tokens=draft_limits(session)[0],
        )
        self.runner = Runner(model, self.scheduler, self.metrics, Vocabulary(tokenizer), self.clock)
        self.metrics.collect(WorkloadCollector(self.runner.workload))
        self.events: dict[Ticket, list[Event]] = {}

    def ask(
        self, prompt: list[int], max_tokens: int, sampling: SamplingParams = GREEDY, name: str = "r", **fields
    ) -> Ticket:
        events: list[Event] = []
        stop = fields.pop("stop", ())
        request = Request(name, np.array(prompt, np.int64), max_tokens, sampling, stop, self.clock(), **fields)
        ticket = self.runner.submit(request, events.append)
        self.events[ticket] = events
        return ticket

    def run(self) -> None:
        while self.runner.step():
            pass

    def text(self, ticket: Ticket) -> str:
        return "".join(event.text for event in self.events[ticket] if isinstance(event, Piece))

    def tokens(self, ticket: Ticket) -> list[int]:
        return [entry.token for entry in self.logprobs(ticket)]

    def logprobs(self, ticket: Ticket) -> list[Any]:
        return [entry for event in self.events[ticket] if isinstance(event, Piece) for entry in event.tokens]

    def end(self, ticket: Ticket) -> Finish | Failure:
        end = self.events[ticket][-1]
        assert isinstance(end, Finish | Failure)
        return end


def null_session(n_slots: int = 4, max_context: int = 64, **options) -> NullSession:
    chosen = {"vocab_size": VOCAB, "max_step_tokens": 16, "max_draft_tokens": 15, **options}
    return NullSession(n_slots, max_context, NullOptions(**chosen))
