"""Sequence: a request on its way through the scheduler."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from chipwise.serve.observe.trace import Attribute
from chipwise.serve.request.priority import Priority
from chipwise.serve.request.request import Request
from chipwise.serve.speculation.drafter import Drafter


@dataclass(eq=False)
class Sequence:
    """A request and where it stands. The scheduler keeps the fields; two sequences are never equal.

    Attributes:
        request: What was asked.
        slot: The KV slot it holds; None while it waits without one and when it is over.
        past: Tokens its slot holds.
        tokens: The prompt and what was generated, int64, with room for all of the answer.
        known: How many of ``tokens`` there are. One that lost its KV is fed them all again.
        read: How many of them, from the first, are fed as a prompt is, several a step. Those behind were chosen and fed
            one by one.
        cached: Prompt tokens whose KV was there already when it first got a slot.
        started_s: When it first got a slot, on the clock that is passed to the scheduler; None before.
        since_s: When it began to wait.
        level: How urgent it counts while it runs: its priority, or what it had risen to when it was let in.
        level_until: Up to how many known tokens it counts so; then it is its priority again.
        serial: Its place in the order of arrival.
        turned: Whether its ring has turned since it got its slot, so that its tokens are not those that the slot holds.
        said: Tokens that were generated.
        drafter: Guesses how it goes on; None if nobody does.
    """

    request: Request
    slot: int | None = None
    past: int = 0
    tokens: npt.NDArray[np.int64] = field(init=False, repr=False)
    known: int = field(init=False)
    read: int = field(init=False)
    cached: int = 0
    started_s: float | None = None
    since_s: float = 0.0
    level: Priority = Priority.NORMAL
    level_until: int = 0
    serial: int = 0
    turned: bool = False
    said: int = 0
    drafter: Drafter | None = None

    def __post_init__(self) -> None:
        """Take the room for the answer at once: a token allocates nothing."""
        prompt, ring = self.request.prompt, self.request.ring
        room = len(prompt) + self.request.max_tokens
        self._fill(prompt if ring is None else ring.cut(prompt), room if ring is None else min(room, ring.context))

    @property
    def remaining(self) -> int:
        """Tokens to feed until the next one can be chosen; 1 while it decodes."""
        return self.known - self.past

    def restart(self) -> None:
        """It holds no slot, and another scheduler may take it: all its tokens are to be fed there."""
        self.slot, self.past, self.turned = None, 0, False

    def note(self, name: str, now_s: float, **attributes: Attribute) -> None:
        """Something happened to it that its trace should tell, if there is one."""
        if (trace := self.request.trace) is not None:
            trace.note(name, now_s, self.request.sampling.choice, **attributes)

    def append(self, token: int) -> None:
        """A token was chosen. If its ring is full, what stays has to be fed anew."""
        ring = self.request.ring
        turns = ring is not None and self.known == ring.context
        if ring is not None and turns:
            # Into a new array: what a slot holds is remembered by the old one.
            self._fill(ring.cut(self.tokens), ring.context)
            self.level_until = self.known
            self.turned = True
        self.tokens[self.known] = token
        self.known += 1
        self.said += 1
        if turns:
            self.read = self.known

    def _fill(self, tokens: npt.NDArray[np.int64], room: int) -> None:
        self.tokens = np.empty(room, np.int64)
        self.tokens[: len(tokens)] = tokens
        self.known = self.read = len(tokens)
