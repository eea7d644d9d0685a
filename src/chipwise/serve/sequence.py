"""Sequence: a request on its way through the scheduler."""

from __future__ import annotations

from dataclasses import dataclass

from chipwise.serve.request import Request


@dataclass(eq=False)
class Sequence:
    """A request and where it stands. The scheduler keeps the fields; two sequences are never equal.

    Attributes:
        request: What was asked.
        slot: The KV slot it holds; None while it waits and when it is over.
        past: Tokens its slot holds.
        next_token: The token to feed next; None until the prompt is in and the first token is chosen.
        started_s: When it got its slot, on the clock that is passed to the scheduler; None while it waits.
    """

    request: Request
    slot: int | None = None
    past: int = 0
    next_token: int | None = None
    started_s: float | None = None
