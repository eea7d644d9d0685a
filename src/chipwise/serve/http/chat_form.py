"""ChatForm: answers as chat completions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from chipwise.serve.http import sse
from chipwise.serve.http.call_reader import Call, CallReader
from chipwise.serve.http.form import Frame, finite
from chipwise.serve.request.events import Finish, Piece
from chipwise.serve.text.sampling import TokenLogprobs
from chipwise.serve.text.vocabulary import Vocabulary


class ChatForm:
    """Writes the choices of ``chat.completion`` objects and ``chat.completion.chunk`` streams.

    Args:
        frame: What stands around them.
        vocabulary: Shows the tokens of log probabilities.
        index: The choice's index.
        logprobs: Whether log probabilities were asked for.
        reader: Tells tool calls from text; None if there are no tools.
    """

    def __init__(
        self,
        frame: Frame,
        vocabulary: Vocabulary,
        *,
        index: int,
        logprobs: bool,
        reader: CallReader | None = None,
    ) -> None:
        self._frame = frame
        self._index = index
        self._vocabulary = vocabulary
        self._logprobs = logprobs
        self._reader = reader

    def opening(self) -> bytes:
        """The chunk that says who speaks."""
        return self._chunk({"role": "assistant", "content": "", "refusal": None}, None, None)

    def piece(self, piece: Piece) -> bytes:
        """The chunk of a piece of text, and those of the calls that end in it."""
        if self._reader is None:
            return self._text(piece.text, piece.tokens)
        text, calls = self._reader.push(piece.text)
        said = self._text(text, piece.tokens) if text else b""
        if not text and self._logprobs and piece.tokens:
            said = self._chunk({}, self._shown(piece.tokens), None)
        return said + self._call_chunks(calls)

    def ending(self, finish: Finish) -> bytes:
        """The chunk that says why the answer ended, and before it what was held back."""
        said = b""
        if self._reader is not None:
            text, calls = self._reader.flush()
            said = (self._chunk({"content": text}, None, None) if text else b"") + self._call_chunks(calls)
        return said + self._chunk({}, None, self.reason(finish))

    def whole(self, pieces: Sequence[Piece], finish: Finish) -> dict[str, Any]:
        """The choice in one."""
        text = "".join(piece.text for piece in pieces)
        message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
        if self._reader is not None:
            said, calls = self._reader.push(text)
            rest, last = self._reader.flush()
            if calls := [*calls, *last]:
                message["content"] = said + rest or None
                message["tool_calls"] = [_whole_call(call) for call in calls]
        return {
            "index": self._index,
            "message": message,
            "logprobs": self._shown([token for piece in pieces for token in piece.tokens]),
            "finish_reason": self.reason(finish),
        }

    def reason(self, finish: Finish) -> str:
        """Why it ended: by calls, if there are any and nothing cut it."""
        called = self._reader is not None and self._reader.n_calls > 0
        return "tool_calls" if called and finish.reason == "stop" else finish.reason

    def _call_chunks(self, calls: Sequence[Call]) -> bytes:
        """OpenAI's deltas of the latest calls: first who is called, then with what."""
        if self._reader is None:
            return b""
        chunks = []
        for i, call in enumerate(calls, start=self._reader.n_calls - len(calls)):
            opening = {"index": i, **_whole_call(call), "function": {"name": call.name, "arguments": ""}}
            chunks.append(self._chunk({"tool_calls": [opening]}, None, None))
            rest = {"index": i, "function": {"arguments": call.arguments}}
            chunks.append(self._chunk({"tool_calls": [rest]}, None, None))
        return b"".join(chunks)

    @cached_property
    def _texts(self) -> sse.TextEvents:
        return sse.TextEvents(lambda text: self._held({"content": text}, None, None))

    def _text(self, text: str, tokens: Sequence[TokenLogprobs]) -> bytes:
        return self._chunk({"content": text}, self._shown(tokens), None) if self._logprobs else self._texts.event(text)

    def _chunk(self, delta: dict[str, Any], logprobs: dict[str, Any] | None, reason: str | None) -> bytes:
        return sse.event(self._held(delta, logprobs, reason))

    def _held(self, delta: dict[str, Any], logprobs: dict[str, Any] | None, reason: str | None) -> dict[str, Any]:
        choice = {"index": self._index, "delta": delta, "logprobs": logprobs, "finish_reason": reason}
        return self._frame.chunk(choice)

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


def _whole_call(call: Call) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
