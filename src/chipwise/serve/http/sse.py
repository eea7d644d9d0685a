"""Server-sent events, as OpenAI's API streams them."""

from __future__ import annotations

import json
from typing import Any

DONE = b"data: [DONE]\n\n"


def event(data: dict[str, Any]) -> bytes:
    """One event that carries JSON on one line."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    # Legal in JSON and in an event, but clients that split lines as Python's str does would cut here.
    text = text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029").replace("\x85", "\\u0085")
    return f"data: {text}\n\n".encode()
