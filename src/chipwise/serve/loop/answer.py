"""Answer: the text side of one request, from token ids to pieces a client may see."""

from __future__ import annotations

from collections import deque
from collections.abc import Container

from chipwise.serve.request.events import FinishReason, Piece
from chipwise.serve.request.request import Request
from chipwise.serve.text.detokenize import Detokenizer
from chipwise.serve.text.sampling import TokenLogprobs
from chipwise.serve.text.stop import StopMatcher
from chipwise.serve.text.vocabulary import Vocabulary


class Answer:
    """Collects an answer's tokens and says what of its text may be sent, and when it ends."""

    def __init__(self, request: Request, vocabulary: Vocabulary, eos_ids: Container[int]) -> None:
        self._vocabulary = vocabulary
        self._eos_ids = eos_ids
        self._max_tokens = request.max_tokens
        self._detokenizer = Detokenizer()
        self._stop = StopMatcher(request.stop)
        # Tokens whose text is not out yet, with the place (in characters) where it begins.
        self._waiting: deque[tuple[int, TokenLogprobs]] = deque()
        self._decoded_chars = 0
        self._sent_chars = 0
        self.n_tokens = 0
        self.finish_reason: FinishReason | None = None

    def push(self, token: int, logprobs: TokenLogprobs | None, *, complete: bool = False) -> Piece | None:
        """Take the next token; a piece if there is something to send. See ``finish_reason`` afterwards.

        Args:
            token: The token's id.
            logprobs: Its log probability, if asked for.
            complete: Whether nothing may follow it.
        """
        self.n_tokens += 1
        if token in self._eos_ids:
            self.finish_reason = "stop"
            return self._end()
        if logprobs is not None:
            self._waiting.append((self._decoded_chars, logprobs))
        text = self._detokenizer.push(self._vocabulary.token_bytes(token))
        self._decoded_chars += len(text)
        free = self._stop.push(text)
        if self._stop.stopped:
            self.finish_reason = "stop"
            return self._piece(free)
        if complete or self.n_tokens >= self._max_tokens:
            self.finish_reason = "stop" if complete else "length"
            return self._end(free)
        return self._piece(free)

    def _end(self, free: str = "") -> Piece | None:
        # Bytes of a character that will not be completed stay in the detokenizer: they are no text.
        return self._piece(free + self._stop.flush(), last=True)

    def _piece(self, text: str, *, last: bool = False) -> Piece | None:
        self._sent_chars += len(text)
        if not self._waiting:
            return Piece(text) if text else None
        offsets, tokens = [], []
        while self._waiting and (last or self._waiting[0][0] < self._sent_chars):
            offset, entry = self._waiting.popleft()
            offsets.append(offset)
            tokens.append(entry)
        return Piece(text, tuple(tokens), tuple(offsets)) if text or tokens else None
