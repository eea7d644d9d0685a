"""Trace: what is kept of one HTTP request, from its arrival to its end, for whoever traces requests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from chipwise.errors import ChipwiseError, OverloadedError, RequestError

Attribute: TypeAlias = str | int | float | bool | Sequence[str]


@dataclass(frozen=True)
class Note:
    """Something that happened to a request.

    Attributes:
        name: What, e.g. ``parked``.
        at_s: When, on the server's clock.
        attributes: More about it.
    """

    name: str
    at_s: float
    attributes: Mapping[str, Attribute]


@dataclass(frozen=True)
class Part:
    """One choice of an answer that is over. Times are on the server's clock.

    Attributes:
        choice: Which one.
        outcome: How it ended: ``stop``, ``length``, ``cancelled``, ``expired`` or ``error``.
        started_s: When it first got a slot; None if it never did.
        first_token_s: When its first token was chosen; None if none was.
        ended_s: When it ended.
        prompt_tokens: Tokens of its prompt.
        output_tokens: Tokens that were generated.
        cached_tokens: Tokens of the prompt whose KV was there.
    """

    choice: int
    outcome: str
    started_s: float | None
    first_token_s: float | None
    ended_s: float
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int


@dataclass(eq=False)
class Trace:
    """A request from its arrival to its end. The threads that serve its choices may end them at the same time.

    Attributes:
        operation: What is done, by the name that the conventions for generative models have for it.
        headers: The HTTP headers that say which trace it belongs to.
        clock: The server's, in seconds.
        started_s: When it came, on that clock.
        tell: Takes it once, when it is over.
        model: The model that is asked for; None until it is known to be there.
        attributes: What is known of it.
        notes: What happened to it.
        parts: Its choices that are over.
        reasons: Why its choices ended, as the client reads it, where that was written.
        queued_s: When its choices were given to the scheduler; None if they were not.
        ended_s: When it was over.
        error: What kind of error ended it; None if none did.
        fault: What the server did wrong, in words; None if nothing.
    """

    operation: str
    headers: Mapping[str, str]
    clock: Callable[[], float] = field(repr=False)
    started_s: float
    tell: Callable[[Trace], None] = field(repr=False)
    model: str | None = None
    attributes: dict[str, Attribute] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    reasons: dict[int, str] = field(default_factory=dict)
    queued_s: float | None = None
    ended_s: float | None = None
    error: str | None = None
    fault: str | None = None
    _open: int = 0
    _answered: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def queued(self, n_choices: int) -> None:
        """So many choices are given to the scheduler: it is not over before all of them are."""
        self._open, self.queued_s = n_choices, self.clock()

    def refused(self, n_choices: int, error: ChipwiseError) -> None:
        """So many of the choices were not taken."""
        self.failed(error)
        with self._lock:
            self._open -= n_choices
        self._tell_if_over()

    def note(self, name: str, now_s: float, choice: int = 0, **attributes: Attribute) -> None:
        """Something happened to one of the choices."""
        self.notes.append(Note(name, now_s, {"chipwise.choice": choice, **attributes}))

    def ended(self, part: Part) -> None:
        """A choice is over."""
        with self._lock:
            self.parts.append(part)
            self._open -= 1
        self._tell_if_over()

    def failed(self, error: ChipwiseError) -> None:
        """It ends with an error. The first one counts."""
        if self.error is None:
            code = error.code if isinstance(error, RequestError) else None
            self.error = code or type(error).__name__
            self.fault = None if isinstance(error, (RequestError, OverloadedError)) else str(error)

    def answered(self, error: str | None = None) -> None:
        """The response was sent, or nobody reads it any more. It is over then, unless choices of it are not.

        Args:
            error: What kind of error the response is, if nobody said so before; None for none.
        """
        if self.queued_s is None:
            self.error = self.error or error
        with self._lock:
            self._answered = True
        self._tell_if_over()

    def _tell_if_over(self) -> None:
        now_s = self.clock()
        with self._lock:
            if self._open or not self._answered or self.ended_s is not None:
                return
            # An answer is there with its last token, whatever time its client takes to read it.
            self.ended_s = max((part.ended_s for part in self.parts), default=now_s)
        self.tell(self)
