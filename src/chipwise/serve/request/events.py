"""Events: what the serving thread tells a client's handler about its request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from chipwise.errors import ChipwiseError
from chipwise.serve.text.sampling import TokenLogprobs

FinishReason = Literal["stop", "length"]


@dataclass(frozen=True)
class Piece:
    """The next text of the answer.

    Attributes:
        text: Whole characters that no stop string will take back.
        tokens: The tokens whose text begins in it, if log probabilities were asked for.
        offsets: Where in the answer's text each of them begins, in characters.
    """

    text: str
    tokens: tuple[TokenLogprobs, ...] = ()
    offsets: tuple[int, ...] = ()


@dataclass(frozen=True)
class Finish:
    """The answer is complete.

    Attributes:
        reason: ``stop`` (an end token or a stop string) or ``length``.
        prompt_tokens: Tokens of the prompt.
        completion_tokens: Tokens generated, the end token and those of a stop string included.
        cached_tokens: Tokens of the prompt that were not computed, because their KV was there.
    """

    reason: FinishReason
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0


@dataclass(frozen=True)
class Failure:
    """There will be no more of this answer."""

    error: ChipwiseError


Event: TypeAlias = Piece | Finish | Failure

Wake = Callable[[], None]
"""Wakes whoever reads what an outbox took; it neither blocks nor raises. Equal ones wake the same readers."""

Outbox = Callable[[Event], Wake | None]
"""Takes a request's events, in order, from the serving thread; it neither blocks nor raises.

What it returns is to be called before the thread runs a step or waits: so all events of a step take one call. None if
nobody waits for this event.
"""
