"""Frame and Form: how answers are written in one of OpenAI's formats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from chipwise.serve.http import sse
from chipwise.serve.request.events import Finish, Piece

# JSON has no minus infinity; OpenAI writes this for a token that cannot come.
_LEAST_LOGPROB = -9999.0


@dataclass(frozen=True)
class Frame:
    """What stands around the choices of one request.

    Attributes:
        head: ``id``, ``created``, ``model`` and ``system_fingerprint``, the same in every object.
        whole_object: What an answer in one calls itself.
        chunk_object: What a part of a stream calls itself.
        include_usage: Whether a stream carries the token counts.
    """

    head: dict[str, Any]
    whole_object: str
    chunk_object: str
    include_usage: bool

    @property
    def answer_id(self) -> str:
        """The answer's id."""
        return str(self.head["id"])

    def chunk(self, choice: dict[str, Any]) -> dict[str, Any]:
        """What a part of a stream that belongs to one choice holds."""
        chunk = {**self.head, "object": self.chunk_object, "choices": [choice]}
        return {**chunk, "usage": None} if self.include_usage else chunk

    def counts(self, ends: Sequence[Finish]) -> bytes:
        """The part of a stream that follows all choices: the token counts, if they were asked for."""
        if not self.include_usage:
            return b""
        return sse.event({**self.head, "object": self.chunk_object, "choices": [], "usage": usage(ends)})

    def whole(self, choices: Sequence[dict[str, Any]], ends: Sequence[Finish]) -> dict[str, Any]:
        """The answer in one."""
        return {**self.head, "object": self.whole_object, "choices": list(choices), "usage": usage(ends)}


class Form(Protocol):
    """Writes one choice, either whole or as a stream of chunks, each an event of its own."""

    def opening(self) -> bytes:
        """The chunks before the first text."""
        ...

    def piece(self, piece: Piece) -> bytes:
        """The chunks of a piece of text."""
        ...

    def ending(self, finish: Finish) -> bytes:
        """The chunks after the last text."""
        ...

    def whole(self, pieces: Sequence[Piece], finish: Finish) -> dict[str, Any]:
        """The choice in one."""
        ...

    def reason(self, finish: Finish) -> str:
        """Why it ended, as the client reads it. Once it is written."""
        ...


def usage(ends: Sequence[Finish]) -> dict[str, Any]:
    """OpenAI's token counts: the prompt counts once, however many choices were made from it."""
    prompt, completion = ends[0].prompt_tokens, sum(end.completion_tokens for end in ends)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        # What the first choice computed is there for the others, and was not before.
        "prompt_tokens_details": {"cached_tokens": min(end.cached_tokens for end in ends)},
    }


def finite(logprob: float) -> float:
    """A log probability that JSON can hold."""
    return max(logprob, _LEAST_LOGPROB)
