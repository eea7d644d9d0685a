"""Server-sent events, as OpenAI's API streams them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from uuid import uuid4

DONE = b"data: [DONE]\n\n"

_written = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def event(data: dict[str, Any]) -> bytes:
    """One event that carries JSON on one line."""
    return f"data: {_on_one_line(_written(data))}\n\n".encode()


class TextEvents:
    """Events that differ in one text only: what stands around it is written once.

    Args:
        data: Makes an event's data from its text.
    """

    def __init__(self, data: Callable[[str], dict[str, Any]]) -> None:
        # Nothing else in an event reads like this.
        place = uuid4().hex
        self._before, self._after = event(data(place)).split(_written(place).encode())

    def event(self, text: str) -> bytes:
        """The event with this text."""
        written = _written(text)
        if not written.isascii():
            written = _on_one_line(written)
        return b"%b%b%b" % (self._before, written.encode(), self._after)


def _on_one_line(text: str) -> str:
    # Legal in JSON and in an event, but clients that split lines as Python's str does would cut here.
    return text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029").replace("\x85", "\\u0085")
