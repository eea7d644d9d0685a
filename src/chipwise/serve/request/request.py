"""Request: what a client asks the model for, in tokens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from chipwise.serve.observe.trace import Trace
from chipwise.serve.request.priority import Priority
from chipwise.serve.request.ring import Ring
from chipwise.serve.text.grammar import Grammar
from chipwise.serve.text.sampling import SamplingParams


@dataclass(frozen=True)
class Request:
    """One answer wanted.

    Attributes:
        id: Its name towards the client and in logs.
        prompt: Token ids, int64 ``[n]``, at least one.
        max_tokens: The most tokens the answer may have, at least one; without a ring both fit the context.
        sampling: How tokens are chosen.
        stop: Strings that end the answer and are not part of it.
        arrived_s: When it came, on the server's clock.
        priority: How urgent it is.
        deadline_s: When the answer is of no use any more, on the server's clock; None for never.
        client: Whose it is: clients share the model evenly.
        grammar: What its text has to be; None for anything.
        ring: How it goes on when its slot is full; None if prompt and answer fit it.
        trace: What is kept of the HTTP request that it is a choice of; None if nobody traces.
    """

    id: str
    prompt: npt.NDArray[np.int64]
    max_tokens: int
    sampling: SamplingParams
    stop: tuple[str, ...]
    arrived_s: float
    priority: Priority = Priority.NORMAL
    deadline_s: float | None = None
    client: str = ""
    grammar: Grammar | None = None
    ring: Ring | None = None
    trace: Trace | None = None
