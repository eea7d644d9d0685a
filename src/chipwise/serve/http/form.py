"""Form: how an answer is written in one of OpenAI's formats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from chipwise.serve.events import Finish, Piece

# JSON has no minus infinity; OpenAI writes this for a token that cannot come.
_LEAST_LOGPROB = -9999.0


class Form(Protocol):
    """Writes one answer, either whole or as a stream of chunks."""

    def opening(self) -> list[dict[str, Any]]:
        """The chunks before the first text."""
        ...

    def piece(self, piece: Piece) -> list[dict[str, Any]]:
        """The chunks of a piece of text."""
        ...

    def ending(self, finish: Finish) -> list[dict[str, Any]]:
        """The chunks after the last text."""
        ...

    def whole(self, pieces: Sequence[Piece], finish: Finish) -> dict[str, Any]:
        """The answer in one."""
        ...


def usage(finish: Finish) -> dict[str, Any]:
    """OpenAI's token counts."""
    return {
        "prompt_tokens": finish.prompt_tokens,
        "completion_tokens": finish.completion_tokens,
        "total_tokens": finish.prompt_tokens + finish.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": finish.cached_tokens},
    }


def finite(logprob: float) -> float:
    """A log probability that JSON can hold."""
    return max(logprob, _LEAST_LOGPROB)
