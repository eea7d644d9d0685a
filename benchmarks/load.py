"""Load: streaming clients that note when each token came."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import Any

import httpx
import numpy as np

# Ids that are words in the model's vocabulary, not controls.
_LEAST_ID, _MOST_ID = 1000, 40000


@dataclass
class Asked:
    """One request as its client saw it.

    Attributes:
        sent_s: When it was sent.
        times_s: When each piece of the answer came.
        tokens: Tokens of the answer, as the server counts them; None if it was cut short.
        cached_tokens: Prompt tokens that the server did not compute, as it says.
    """

    sent_s: float
    times_s: list[float] = field(default_factory=list)
    tokens: int | None = None
    cached_tokens: int = 0

    @property
    def ttft_s(self) -> float:
        """From sending to the first piece."""
        return self.times_s[0] - self.sent_s

    @property
    def duration_s(self) -> float:
        """From sending to the last piece."""
        return self.times_s[-1] - self.sent_s


class Prompts:
    """Prompts that nobody has sent before."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def new(self, tokens: int) -> list[int]:
        """A prompt of random tokens."""
        return [int(token) for token in self._random.integers(_LEAST_ID, _MOST_ID, tokens)]


async def ask(client: httpx.AsyncClient, prompt: list[int], max_tokens: int, priority: str | None = None) -> Asked:
    """Send one request and read its answer to the end."""
    body: dict[str, Any] = {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "stream": True}
    body["stream_options"] = {"include_usage": True}
    headers = {} if priority is None else {"X-Priority": priority}
    asked = Asked(time.perf_counter())
    async with client.stream("POST", "/v1/completions", json=body, headers=headers) as response:
        if response.status_code != 200:
            raise SystemExit(f"error: {response.status_code} {(await response.aread()).decode()[:300]}")
        async for line in response.aiter_lines():
            if not line.startswith("data: {"):
                continue
            chunk = json.loads(line[6:])
            if chunk.get("usage"):
                asked.tokens = chunk["usage"]["completion_tokens"]
                details = chunk["usage"].get("prompt_tokens_details") or {}
                asked.cached_tokens = details.get("cached_tokens", 0)
            if any(choice.get("text") or choice.get("finish_reason") for choice in chunk.get("choices", ())):
                asked.times_s.append(time.perf_counter())
    return asked


def client_of(url: str) -> httpx.AsyncClient:
    """A client that opens a connection a request: servers differ in how long they keep one that is idle."""
    limits = httpx.Limits(max_connections=64, max_keepalive_connections=0)
    return httpx.AsyncClient(base_url=url, timeout=300, limits=limits)


async def stream_for(
    client: httpx.AsyncClient,
    prompts: Prompts,
    prompt_tokens: int,
    max_tokens: int,
    ended: asyncio.Event,
    priority: str | None,
) -> list[Asked]:
    """One client that sends its next request when its last is answered, until it is told to end."""
    found = []
    while not ended.is_set():
        found.append(await ask(client, prompts.new(prompt_tokens), max_tokens, priority))
    return found


def tokens_between(asked: list[Asked], start_s: float, end_s: float) -> float:
    """Tokens that came within a time: an answer's tokens are spread over its pieces."""
    total = 0.0
    for one in asked:
        inside = sum(start_s <= time_s < end_s for time_s in one.times_s)
        total += (one.tokens or len(one.times_s)) * inside / max(1, len(one.times_s))
    return total


async def background(
    client: httpx.AsyncClient, prompts: Prompts, streams: int, prompt_tokens: int, max_tokens: int, ended: asyncio.Event
) -> list[Asked]:
    """Several such clients at once, at background priority."""
    tasks = [stream_for(client, prompts, prompt_tokens, max_tokens, ended, "background") for _ in range(streams)]
    return [one for found in await asyncio.gather(*tasks) for one in found]
