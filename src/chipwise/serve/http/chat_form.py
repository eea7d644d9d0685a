"""ChatForm: answers as chat completions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chipwise.serve.events import Finish, Piece
from chipwise.serve.http.form import finite, usage
from chipwise.serve.sampling import TokenLogprobs
from chipwise.serve.vocabulary import Vocabulary


class ChatForm:
    """Writes ``chat.completion`` objects and ``chat.completion.chunk`` streams.

    Args:
        head: ``id``, ``created``, ``model`` and ``system_fingerprint``, the same in every object.
        vocabulary: Shows the tokens of log probabilities.
        logprobs: Whether log probabilities were asked for.
        include_usage: Whether a stream carries the token counts.
    """

    def __init__(self, head: dict[str, Any], vocabulary: Vocabulary, *, logprobs: bool, include_usage: bool) -> None:
        self._head = head
        self._chunk_head = {**head, "object": "chat.completion.chunk"}
        self._vocabulary = vocabulary
        self._logprobs = logprobs
        self._include_usage = include_usage

    def opening(self) -> list[dict[str, Any]]:
        """The chunk that says who speaks."""
        return [self._chunk({"role": "assistant", "content": "", "refusal": None}, None, None)]

    def piece(self, piece: Piece) -> dict[str, Any]:
        """The chunk of a piece of text."""
        return self._chunk({"content": piece.text}, self._shown(piece.tokens), None)

    def ending(self, finish: Finish) -> list[dict[str, Any]]:
        """The chunk that says why the answer ended, and the one with the counts."""
        chunks = [self._chunk({}, None, finish.reason)]
        if self._include_usage:
            chunks.append({**self._chunk_head, "choices": [], "usage": usage(finish)})
        return chunks

    def whole(self, pieces: Sequence[Piece], finish: Finish) -> dict[str, Any]:
        """The answer in one."""
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": "".join(piece.text for piece in pieces), "refusal": None},
            "logprobs": self._shown([token for piece in pieces for token in piece.tokens]),
            "finish_reason": finish.reason,
        }
        return {**self._head, "object": "chat.completion", "choices": [choice], "usage": usage(finish)}

    def _chunk(self, delta: dict[str, Any], logprobs: dict[str, Any] | None, reason: str | None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": reason}
        chunk = {**self._chunk_head, "choices": [choice]}
        return {**chunk, "usage": None} if self._include_usage else chunk

    def _shown(self, tokens: Sequence[TokenLogprobs]) -> dict[str, Any] | None:
        if not self._logprobs:
            return None
        content = [
            {**self._entry(entry.token, entry.logprob), "top_logprobs": [self._entry(*top) for top in entry.top]}
            for entry in tokens
        ]
        return {"content": content, "refusal": None}

    def _entry(self, token: int, logprob: float) -> dict[str, Any]:
        shown = self._vocabulary.token_text(token)
        # A special token has no bytes of its own in the answer, but reads as its name in such a list.
        raw = self._vocabulary.token_bytes(token) or shown.encode()
        return {"token": shown, "logprob": finite(logprob), "bytes": list(raw)}
