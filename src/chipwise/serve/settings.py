"""ServeSettings: how a server behaves, apart from the model it serves."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ServeSettings:
    """The server's settings.

    Attributes:
        host: Address to listen on.
        port: Port to listen on; 0 takes a free one.
        max_waiting: Requests that may wait for a slot; the next one is answered with 429.
        chunk_tokens: The most prompt tokens a step feeds while others decode: what a running stream waits at most.
        max_body_bytes: The largest request body that is read.
        grace_s: How long requests may go on once the server is told to end.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    max_waiting: int = 64
    chunk_tokens: int = 128
    max_body_bytes: int = 8 << 20
    grace_s: float = 30.0
