"""CompletionForm: answers as text completions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from chipwise.serve.http import sse
from chipwise.serve.http.form import Frame, finite
from chipwise.serve.request.events import Finish, Piece
from chipwise.serve.text.vocabulary import Vocabulary


class CompletionForm:
    """Writes the choices of ``text_completion`` objects, whole and as a stream.

    Args:
        frame: What stands around them.
        vocabulary: Shows the tokens of log probabilities.
        index: The choice's index.
        logprobs: Whether log probabilities were asked for.
    """

    def __init__(self, frame: Frame, vocabulary: Vocabulary, *, index: int, logprobs: bool) -> None:
        self._frame = frame
        self._vocabulary = vocabulary
        self._index = index
        self._logprobs = logprobs

    def opening(self) -> bytes:
        """A completion begins with its text."""
        return b""

    def piece(self, piece: Piece) -> bytes:
        """The chunk of a piece of text."""
        if not self._logprobs:
            return self._texts.event(piece.text)
        return sse.event(self._chunk(piece.text, self._shown([piece]), None))

    def ending(self, finish: Finish) -> bytes:
        """The chunk that says why the answer ended."""
        return sse.event(self._chunk("", None, finish.reason))

    def whole(self, pieces: Sequence[Piece], finish: Finish) -> dict[str, Any]:
        """The choice in one."""
        return self._choice("".join(piece.text for piece in pieces), self._shown(pieces), finish.reason)

    def reason(self, finish: Finish) -> str:
        """Why it ended."""
        return finish.reason

    @cached_property
    def _texts(self) -> sse.TextEvents:
        return sse.TextEvents(lambda text: self._chunk(text, None, None))

    def _chunk(self, text: str, logprobs: dict[str, Any] | None, reason: str | None) -> dict[str, Any]:
        return self._frame.chunk(self._choice(text, logprobs, reason))

    def _choice(self, text: str, logprobs: dict[str, Any] | None, reason: str | None) -> dict[str, Any]:
        return {"index": self._index, "text": text, "logprobs": logprobs, "finish_reason": reason}

    def _shown(self, pieces: Sequence[Piece]) -> dict[str, Any] | None:
        if not self._logprobs:
            return None
        text_of = self._vocabulary.token_text
        tokens = [entry for piece in pieces for entry in piece.tokens]
        return {
            "tokens": [text_of(entry.token) for entry in tokens],
            "token_logprobs": [finite(entry.logprob) for entry in tokens],
            # The chosen token is among them even where it is not among the likeliest.
            "top_logprobs": [
                {text_of(token): finite(logprob) for token, logprob in (*entry.top, (entry.token, entry.logprob))}
                for entry in tokens
            ],
            "text_offset": [offset for piece in pieces for offset in piece.offsets],
        }
