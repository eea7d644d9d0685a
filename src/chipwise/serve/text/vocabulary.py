"""Vocabulary: the bytes each token stands for, so that text can be put together without cutting a character."""

from __future__ import annotations

import re

from chipwise.model.tokenizer import Tokenizer

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def _byte_of_char() -> dict[str, int]:
    """The alphabet in which byte-level vocabularies write bytes (openai/gpt-2, ``bytes_to_unicode``)."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [b for b in range(0x100) if b not in set(shown)]
    return {chr(b): b for b in shown} | {chr(0x100 + i): b for i, b in enumerate(hidden)}


class Vocabulary:
    """Token ids to bytes, remembered. Safe to share between threads."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._known: dict[int, bytes] = {}
        self._byte_of_char = _byte_of_char() if self._is_byte_level() else None
        self._context = self._find_context()

    def token_bytes(self, token_id: int) -> bytes:
        """What a token adds to an answer: empty for special tokens and ids that have none."""
        found = self._known.get(token_id)
        if found is None:
            found = self._known[token_id] = self._look_up(token_id)
        return found

    def token_text(self, token_id: int) -> str:
        """A token for people: its text, or its bytes as OpenAI writes them where it cuts a character."""
        raw = self.token_bytes(token_id)
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{b:02x}" for b in raw)
        # Special tokens add nothing to an answer, but a list of likely tokens shows them.
        return text or self._tokenizer.decode([token_id], skip_special=False)

    def _is_byte_level(self) -> bool:
        probes = (("Ġ", " "), ("Ċ", "\n"))
        found = [(self._tokenizer.token_id(token), text) for token, text in probes]
        return any(i is not None and self._tokenizer.decode([i]) == text for i, text in found)

    def _find_context(self) -> tuple[int, str] | None:
        """A plain token to stand in front: decoders may treat the first token of a text differently."""
        for token_id in range(min(self._tokenizer.vocab_size, 4096)):
            text = self._tokenizer.decode([token_id])
            if text.isalnum():
                return token_id, text
        return None

    def _look_up(self, token_id: int) -> bytes:
        tokenizer = self._tokenizer
        shown = tokenizer.decode([token_id], skip_special=False)
        if not shown:  # an id without a token, or a lone space that the decoder strips off a text's start
            return self._in_context(token_id).encode()
        if not tokenizer.decode([token_id]):
            return b"" if self._byte_of_char else self._in_context(token_id).encode()
        written = tokenizer.token_text(token_id)
        if self._byte_of_char is not None:
            found = [self._byte_of_char.get(char) for char in written]
            raw = [byte for byte in found if byte is not None]
            # An added token may hold characters outside the alphabet: it is written as it reads.
            return bytes(raw) if len(raw) == len(found) else written.encode()
        if (match := _BYTE_TOKEN.fullmatch(written)) and shown != written:
            return bytes([int(match[1], 16)])
        return self._in_context(token_id).encode()

    def _in_context(self, token_id: int) -> str:
        if self._context is None:
            return self._tokenizer.decode([token_id])
        front, text = self._context
        both = self._tokenizer.decode([front, token_id])
        return both[len(text) :] if both.startswith(text) else self._tokenizer.decode([token_id])
