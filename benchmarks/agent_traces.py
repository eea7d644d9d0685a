"""Do guessed tokens make agents' answers come faster: JSON calls and logs, with and without, and beside llama.cpp?

    python -m benchmarks.agent_traces [--rounds N]

Servers run in processes of their own, on the same 4-bit weights, one greedy request at a time. Writes
results/agent_traces.json.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx

from benchmarks import llama_server
from benchmarks.agent_traces_results import GOAL, GUESSED, KINDS, PEER, PLAIN, AgentTraces, TraceAnswer, TraceServer
from benchmarks.machine import bandwidth, facts, load_average, today
from benchmarks.model import built_bundle, smollm2
from benchmarks.results import RESULTS, save
from benchmarks.served import Server
from benchmarks.serving import contestants

_MOST_TOKENS = 128
_ROOMS = ("kitchen", "hall", "bathroom", "office")
_CALLS: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "calls": {
            "type": "array",
            "minItems": 2,
            "maxItems": 4,
            "items": {
                "type": "object",
                "properties": {
                    "function": {"enum": ["set_device_state", "set_temperature"]},
                    "room_name": {"enum": list(_ROOMS)},
                    "target_value": {"type": "integer", "minimum": 0, "maximum": 100},
                },
                "required": ["function", "room_name", "target_value"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["calls"],
    "additionalProperties": False,
}


def requests(seed: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Kind and body of what is asked in a round; every round asks something else."""
    for i in range(2):
        one, two = _ROOMS[(seed + i) % 4], _ROOMS[(seed + i + 1) % 4]
        text = f"Set the lamp in the {one} to {30 + seed + i} percent and the {two} to {19 + i} degrees: the calls."
        schema = {"name": "calls", "schema": _CALLS, "strict": True}
        yield "tool_calls", {**_chat(text), "response_format": {"type": "json_schema", "json_schema": schema}}
    yield "log_summaries", _chat(f"Repeat the lines of this log that say OK:\n{_log(seed)}")
    yield "log_summaries", _chat(f"Summarize this log, line by line:\n{_log(seed + 7)}")
    yield "prose", _chat(f"Write a short story about a robot that is {seed + 3} years old.")


def _chat(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], "max_tokens": _MOST_TOKENS, "temperature": 0}


def _log(seed: int) -> str:
    return "\n".join(
        f"2026-11-30 {8 + seed % 12:02d}:{i:02d} pump-{(i + seed) % 3} pressure {4 + (i * 7 + seed) % 10 / 10:.1f} bar "
        f"temperature {60 + (i * 3 + seed) % 9} C {'OK' if (i + seed) % 4 else 'WARN'}"
        for i in range(8)
    )


def ask(client: httpx.Client, kind: str, body: Mapping[str, Any]) -> TraceAnswer:
    """Send one request and read its stream."""
    sent_s, times_s, text, tokens = time.perf_counter(), list[float](), "", 0
    asked = {**body, "stream": True, "stream_options": {"include_usage": True}}
    with client.stream("POST", "/v1/chat/completions", json=asked) as response:
        if response.status_code != 200:
            raise SystemExit(f"error: {response.status_code} {response.read().decode()[:300]}")
        for line in response.iter_lines():
            if not line.startswith("data: {"):
                continue
            chunk = json.loads(line[6:])
            tokens = (chunk.get("usage") or {}).get("completion_tokens", tokens)
            pieces = [choice["delta"].get("content") or "" for choice in chunk.get("choices", ())]
            if any(pieces):
                text += "".join(pieces)
                times_s.append(time.perf_counter())
    return TraceAnswer(kind, text, tokens, times_s[0] - sent_s, times_s[-1] - times_s[0])


def servers_of(gguf: Path, bundle: Path) -> tuple[list[Server], tuple[Any, ...]]:
    """Ours with and without guesses, and the peer if it is there."""
    (own, *peers), missing = contestants(gguf, bundle)
    plain = replace(own, title=f"{own.title}, --speculate off", options=("--speculate", "off"))
    return [own, plain, *peers], tuple(missing)


def measure(servers: Sequence[Server], rounds: int, threads: int) -> tuple[TraceServer, ...]:
    """All rounds of all servers, in turns."""
    names = (GUESSED, PLAIN, PEER)
    found = [TraceServer(name, one.title, (), ()) for name, one in zip(names, servers, strict=False)]
    for number in range(rounds):
        for place, server in enumerate(servers):
            load = load_average()
            with server.running(1, threads=threads) as url, _client(url) as client:
                ask(client, "warm-up", {**_chat("Count to ten."), "max_tokens": 24})
                answers = tuple(ask(client, kind, body) for kind, body in requests(number))
                one = found[place]
                one = replace(one, rounds=(*one.rounds, answers), load_averages=(*one.load_averages, load))
                if place == 0:
                    speculated, accepted = (_metric(client, name) for name in ("speculated", "accepted"))
                    one = replace(
                        one, speculated=(one.speculated or 0) + speculated, accepted=(one.accepted or 0) + accepted
                    )
                found[place] = one
            rates = ", ".join(f"{KINDS[kind]} {one.rates(kind)[-1]:.1f}" for kind in KINDS)
            print(f"round {number + 1} {one.title}: tokens/s {rates}", flush=True)
    return tuple(found)


def _client(url: str) -> httpx.Client:
    """A client that opens a connection a request: servers differ in how long they keep one that is idle."""
    return httpx.Client(base_url=url, timeout=300, limits=httpx.Limits(max_keepalive_connections=0))


def _metric(client: httpx.Client, name: str) -> int:
    lines = client.get("/metrics").text.splitlines()
    return next(
        (int(float(line.split()[-1])) for line in lines if line.startswith(f"chipwise_{name}_tokens_total ")), 0
    )


def main() -> int:
    """Run and save; 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description="Agents' answers with guessed tokens, without, and by llama.cpp.")
    parser.add_argument("--rounds", type=int, default=5, help="rounds (5)")
    parser.add_argument("--threads", type=int, default=2, help="threads of each server (2)")
    parser.add_argument("--bundle", type=Path, help="a built bundle; without it one is built and kept")
    parser.add_argument("--out", type=Path, default=RESULTS / "agent_traces.json", help="where the result goes")
    arguments = parser.parse_args()
    gguf = smollm2()
    servers, missing = servers_of(gguf, arguments.bundle or built_bundle(gguf))
    before = bandwidth()
    found = measure(servers, arguments.rounds, arguments.threads)
    result = AgentTraces(
        date=today(),
        model=gguf.stem,
        machine=facts(before, bandwidth()),
        peer_version=None if missing else llama_server.version(),
        threads=arguments.threads,
        servers=found,
        missing=missing,
    )
    save(result, arguments.out)
    met = []
    for kind, title in KINDS.items():
        over = [f"{result.ratio(kind, name):.2f} of {name}" for name in (PLAIN, PEER) if result.server(name)]
        print(f"{title}: {', '.join(over)}; the same text with and without: {result.same(kind)}")
        same, answers = result.same(kind)
        met.append(same == answers and (kind == "prose" or (result.ratio(kind, PEER) or GOAL) >= GOAL))
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
