"""Ticket: one request that the server has taken, for whoever waits for its answer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chipwise.serve.loop.answer import Answer
from chipwise.serve.request.events import Failure, Outbox
from chipwise.serve.request.sequence import Sequence
from chipwise.serve.text.grammar import GrammarState


@dataclass(eq=False)
class Ticket:
    """A request on its way. The holder may only cancel it; the rest belongs to the serving thread.

    Attributes:
        sequence: Where it stands with the scheduler.
        answer: What was said so far.
        outbox: Where its events go.
        chance: Its random generator.
        constraint: Where its text stands in its grammar; None if it has none.
        first_token_s: When its first token came, on the server's clock; None before.
        last_token_s: When its latest token came, on the server's clock; None before the first.
        gone: Whether its client has given it up.
        told: What its client was told while a step ran: its end, which takes effect behind that; None for nothing.
        losses: In how many of its steps the engine was lost.
        lost_at: How many tokens of its answer there were at the last of these.
    """

    sequence: Sequence
    answer: Answer
    outbox: Outbox
    chance: np.random.Generator
    constraint: GrammarState | None = None
    first_token_s: float | None = None
    last_token_s: float | None = None
    gone: bool = False
    told: Failure | None = None
    losses: int = 0
    lost_at: int = 0
