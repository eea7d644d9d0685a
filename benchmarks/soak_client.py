"""The soak's clients: each asks once, and says how it was answered."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from typing import Any, Literal

import httpx
import numpy as np

Ending = Literal["answered", "refused", "error", "left", "lost"]
_PATIENCE_S = 60.0


@dataclass
class Call:
    """One request as its client saw it.

    Attributes:
        kind: What sent it.
        sent_s: When, from the soak's start.
        ttft_s: From sending to the first piece of the answer.
        duration_s: From sending to the end.
        ending: ``answered`` whole; ``refused`` with a status; ``error`` told in the stream; ``left`` by the client;
            ``lost``: no end at all.
        status: The HTTP status; 0 if there was none.
        text: The answer.
        said: What the server said instead of one.
        asked: What was asked, for telling which answers should be equal; empty if that does not matter.
    """

    kind: str
    sent_s: float
    ttft_s: float | None = None
    duration_s: float = 0.0
    ending: Ending = "lost"
    status: int = 0
    text: str = ""
    said: str = ""
    asked: str = ""


async def call(
    client: httpx.AsyncClient, kind: str, body: dict[str, Any], start_s: float, *, leave_after: int | None = None
) -> Call:
    """Send a streaming chat request and read its answer, or leave after some pieces."""
    began_s = time.perf_counter()
    found = Call(kind, began_s - start_s, asked=json.dumps([body["messages"], body["max_tokens"]]))
    try:
        async with asyncio.timeout(_PATIENCE_S):
            await _read(client, found, {**body, "stream": True}, began_s, leave_after)
    except (httpx.TransportError, TimeoutError, ValueError) as e:
        found.said = f"{type(e).__name__}: {e}"
    found.duration_s = time.perf_counter() - began_s
    return found


async def _read(
    client: httpx.AsyncClient, found: Call, body: dict[str, Any], began_s: float, leave_after: int | None
) -> None:
    pieces = 0
    async with client.stream("POST", "/v1/chat/completions", json=body) as response:
        found.status = response.status_code
        if response.status_code != 200:
            found.said = json.loads(await response.aread())["error"]["message"]
            found.ending = "refused"
            return
        async for line in response.aiter_lines():
            if not line.startswith("data: {"):
                continue
            chunk = json.loads(line[6:])
            if "error" in chunk:
                found.ending, found.said = "error", chunk["error"]["message"]
                return
            for choice in chunk.get("choices", ()):
                pieces += bool(choice["delta"].get("content"))
                found.text += choice["delta"].get("content") or ""
                if found.ttft_s is None and (found.text or choice.get("finish_reason")):
                    found.ttft_s = time.perf_counter() - began_s
                if choice.get("finish_reason"):
                    found.ending = "answered"
            if leave_after is not None and pieces >= leave_after:
                found.ending = "left"
                return


async def malformed(client: httpx.AsyncClient, chance: np.random.Generator, start_s: float) -> Call:
    """Send what is no request; right is a status of 400 to 499 with an error in words."""
    began_s = time.perf_counter()
    found = Call("malformed", began_s - start_s)
    try:
        response = await client.post(
            "/v1/chat/completions",
            content=_nonsense(chance),
            headers={"Content-Type": "application/json"},
            timeout=_PATIENCE_S,
        )
        found.status = response.status_code
        found.said = json.loads(response.content)["error"]["message"]
        found.ending = "refused" if 400 <= response.status_code < 500 and found.said else "lost"
    except (httpx.TransportError, ValueError, KeyError, TypeError) as e:
        found.said = f"{type(e).__name__}: {e}"
    found.duration_s = time.perf_counter() - began_s
    return found


def _nonsense(chance: np.random.Generator) -> bytes:
    user = {"role": "user", "content": "hi"}
    bodies: list[Any] = [
        {}, {"messages": []}, {"messages": "hi"}, {"messages": [{"role": "user"}]},
        {"messages": [user], "max_tokens": -1}, {"messages": [user], "temperature": "hot"},
        {"messages": [user], "model": "no such model"}, {"messages": [user], "n": 10**9},
        {"messages": [user], "stop": [""] * 99}, {"messages": [user], "logprobs": True, "top_logprobs": 10**6},
        {"messages": [user], "response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "x"}}}},
        {"messages": [{"role": "user", "content": "x" * 60_000}]}, [1, 2], 3, None,
    ]  # fmt: skip
    raw = [b"", b"{", b'{"messages": [', b"\xff\xfe\x00", b'{"a":' * 2000]
    pick = int(chance.integers(len(bodies) + len(raw)))
    return json.dumps(bodies[pick]).encode() if pick < len(bodies) else raw[pick - len(bodies)]
