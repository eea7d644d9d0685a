"""ServeSettings: how a server behaves, apart from the model it serves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ServeSettings:
    """The server's settings.

    Attributes:
        host: Address to listen on.
        port: Port to listen on; 0 takes a free one.
        max_waiting: Requests of each priority that may wait for a slot; the next one is answered with 429.
        reserved_slots: Of the requests that run at once, how many only EMERGENCY and INTERACTIVE ones may be.
        parking_slots: KV slots for requests that gave way to more urgent ones, beside those that run.
        step_budget_s: How long a step that feeds a prompt may take: what an urgent request waits at most.
        chunk_tokens: The most prompt tokens a step feeds while others decode, until one has been measured.
        max_body_bytes: The largest request body that is read.
        max_tensor_bytes: The same of an inference request, whose tensors and pictures are larger than texts.
        body_timeout_s: How long a body may take to arrive.
        request_timeout_s: How long an answer may take, waiting included; None for as long as it takes.
        speculate: Whether the next tokens are guessed and checked where that pays.
        sinks: Tokens that stay when an answer outgrows its slot and the oldest give way; None ends it there.
        kept_prompts: Folder of the KV that outlives the server; None keeps none.
        shared_memory: Whether programs of the server's own user may hand over tensors in shared memory.
        otlp_traces_endpoint: URL of the collector that gets a trace of each request; None sends none.
        grace_s: How long requests may go on once the server is told to end.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    max_waiting: int = 64
    reserved_slots: int = 0
    parking_slots: int = 0
    step_budget_s: float = 0.1
    chunk_tokens: int = 128
    max_body_bytes: int = 8 << 20
    max_tensor_bytes: int = 64 << 20
    body_timeout_s: float = 30.0
    request_timeout_s: float | None = None
    speculate: bool = True
    sinks: int | None = None
    kept_prompts: Path | None = None
    shared_memory: bool = False
    otlp_traces_endpoint: str | None = None
    grace_s: float = 30.0
