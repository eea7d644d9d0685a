"""Detokenizer: tokens to text as they come, at a cost that does not grow with the answer."""

from __future__ import annotations

import codecs


class Detokenizer:
    """Puts bytes together into text. A character cut by the border of two tokens waits until it is whole."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, raw: bytes) -> str:
        """The text that became complete. Bytes that can be no character read as U+FFFD."""
        return self._decoder.decode(raw)
