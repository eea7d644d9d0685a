"""CompletionForm: answers as text completions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chipwise.serve.events import Finish, Piece
from chipwise.serve.http.form import finite, usage
from chipwise.serve.vocabulary import Vocabulary


class CompletionForm:
    """Writes ``text_completion`` objects, whole and as a stream.

    Args:
        head: ``id``, ``created``, ``model`` and ``system_fingerprint``, the same in every object.
        vocabulary: Shows the tokens of log probabilities.
        logprobs: Whether log probabilities were asked for.
        include_usage: Whether a stream carries the token counts.
    """

    def __init__(self, head: dict[str, Any], vocabulary: Vocabulary, *, logprobs: bool, include_usage: bool) -> None:
        self._head = {**head, "object": "text_completion"}
        self._vocabulary = vocabulary
        self._logprobs = logprobs
        self._include_usage = include_usage

    def opening(self) -> list[dict[str, Any]]:
        """A completion begins with its text."""
        return []

    def piece(self, piece: Piece) -> list[dict[str, Any]]:
        """The chunk of a piece of text."""
        return [self._chunk(piece.text, self._shown([piece]), None)]

    def ending(self, finish: Finish) -> list[dict[str, Any]]:
        """The chunk that says why the answer ended, and the one with the counts."""
        chunks = [self._chunk("", None, finish.reason)]
        if self._include_usage:
            chunks.append({**self._head, "choices": [], "usage": usage(finish)})
        return chunks

    def whole(self, pieces: Sequence[Piece], finish: Finish) -> dict[str, Any]:
        """The answer in one."""
        text = "".join(piece.text for piece in pieces)
        return {**self._head, "choices": [_choice(text, self._shown(pieces), finish.reason)], "usage": usage(finish)}

    def _chunk(self, text: str, logprobs: dict[str, Any] | None, reason: str | None) -> dict[str, Any]:
        chunk = {**self._head, "choices": [_choice(text, logprobs, reason)]}
        return {**chunk, "usage": None} if self._include_usage else chunk

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


def _choice(text: str, logprobs: dict[str, Any] | None, reason: str | None) -> dict[str, Any]:
    return {"index": 0, "text": text, "logprobs": logprobs, "finish_reason": reason}
