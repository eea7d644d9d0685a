"""Urgent requests beside background work that saturates the server, on a virtual clock."""

from __future__ import annotations

import random

import numpy as np
import pytest

from chipwise.serve.loop.ticket import Ticket
from chipwise.serve.request.events import Finish
from chipwise.serve.request.priority import Priority
from tests.serve.loop.test_runner import Bench

PREFILL_S, DECODE_S = 0.002, 0.005
URGENT_TOKENS, URGENT_ANSWER = 64, 16
# What one takes alone: its prompt in one step, then a token a step.
ALONE_S = URGENT_TOKENS * PREFILL_S + (URGENT_ANSWER - 1) * DECODE_S


class Load:
    """Four background clients, each with its next request when its last is answered, and one with urgent ones.

    These come at random times after the last was answered.
    """

    def __init__(self, *, seed: int, background_prompt: int) -> None:
        # Four run, one more place is reserved, one slot is for parking.
        self.bench = Bench(
            n_slots=6, max_context=1024, max_running=5, reserved=1, prefill_s=PREFILL_S, decode_s=DECODE_S,
            next_token=lambda history: ord("x"),
        )  # fmt: skip
        self.chance = random.Random(seed)
        self.background_prompt = background_prompt
        self.background = [self.ask_background() for _ in range(4)]
        self.background_tokens = 0
        self.ttft_s: list[float] = []
        self.waiting: dict[Ticket, float] = {}
        self.urgent: Ticket | None = None

    def ask_background(self) -> Ticket:
        prompt = [self.chance.randrange(256) for _ in range(self.background_prompt)]
        return self.bench.ask(prompt, 200, priority=Priority.BACKGROUND)

    def ask_urgent(self, came_s: float) -> None:
        prompt = [self.chance.randrange(256) for _ in range(URGENT_TOKENS)]
        self.urgent = self.bench.ask(prompt, URGENT_ANSWER, priority=Priority.EMERGENCY)
        self.waiting[self.urgent] = came_s

    def run(self, until_s: float, urgent_every_s: float | None) -> None:
        next_s = float("inf") if urgent_every_s is None else self.bench.clock() + self._gap(urgent_every_s)
        while self.bench.clock() < until_s:
            before = [len(self.bench.events[ticket]) for ticket in self.background]
            came_s = self.bench.clock()
            self.bench.runner.step()
            self.background_tokens += sum(
                len(self.bench.events[ticket]) - n for ticket, n in zip(self.background, before, strict=True)
            )
            for ticket in [one for one in self.waiting if self.bench.events[one]]:
                self.ttft_s.append(self.bench.clock() - self.waiting.pop(ticket))
            for i, ticket in enumerate(self.background):
                if self._over(ticket):
                    self.background[i] = self.ask_background()
            if next_s <= self.bench.clock() and not self.urgent_runs():
                # It came while the step ran, and has waited since then.
                self.ask_urgent(max(next_s, came_s))
            elif self.urgent_runs() and urgent_every_s is not None:
                next_s = self.bench.clock() + self._gap(urgent_every_s)

    def urgent_runs(self) -> bool:
        return self.urgent is not None and not self._over(self.urgent)

    def _gap(self, mean_s: float) -> float:
        return self.chance.expovariate(1 / mean_s)

    def _over(self, ticket: Ticket) -> bool:
        return any(isinstance(event, Finish) for event in self.bench.events[ticket][-1:])


@pytest.mark.parametrize("background_prompt", [32, 600])
def test_an_urgent_request_hardly_notices_the_background_nor_the_background_it(background_prompt: int) -> None:
    duration_s = 60.0
    calm = Load(seed=1, background_prompt=background_prompt)
    calm.run(duration_s, None)
    busy = Load(seed=1, background_prompt=background_prompt)
    busy.run(duration_s, 3 * ALONE_S)
    count, alone_s = len(busy.ttft_s), URGENT_TOKENS * PREFILL_S
    assert count > 30
    assert min(busy.ttft_s) >= alone_s - 1e-9
    assert np.percentile(busy.ttft_s, 95) <= 1.5 * alone_s
    # Beyond what urgent work takes anyway, the background loses less than a tenth.
    share = count * ALONE_S / duration_s
    assert busy.background_tokens >= 0.9 * (1 - share) * calm.background_tokens
    assert busy.bench.metric("chipwise_evictions_total") == 0
