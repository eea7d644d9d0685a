"""The engine llama.cpp beside llama.cpp's server, as results/llamacpp_engine.json keeps it, and its section."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from benchmarks.results import MachineFacts


@dataclass(frozen=True)
class EngineRates:
    """A server's tokens a second, all streams together.

    Attributes:
        name: Its key.
        title: Its name for people.
        tokens_per_s: By the number of streams, one a round.
        tokens_per_cpu_s: The same over the CPU time of its processes.
        load_averages: The machine's load before each round.
    """

    name: str
    title: str
    tokens_per_s: dict[int, tuple[float, ...]]
    tokens_per_cpu_s: dict[int, tuple[float, ...]]
    load_averages: tuple[float, ...]


@dataclass(frozen=True)
class EngineBesideServer:
    """results/llamacpp_engine.json."""

    date: str
    model: str
    machine: MachineFacts
    peer_version: str
    threads: int
    window_s: float
    servers: tuple[EngineRates, ...]


def llamacpp_engine(result: EngineBesideServer) -> list[str]:
    """Tokens a second of CPU time, and by the clock."""
    streams = sorted({n for server in result.servers for n in server.tokens_per_s})
    loads = [load for server in result.servers for load in server.load_averages]
    rounds = max(len(server.load_averages) for server in result.servers)
    return [
        "## The engine llama.cpp\n",
        f"`python -m benchmarks.llamacpp_engine`, {result.date}. {result.model} in Q4_0, the same file in all servers, "
        f"{result.threads} thread(s), 16 prompt tokens and 96 of an answer a request; {rounds} rounds of "
        f"{result.window_s:.0f} s, the servers in turns, once every stream was answered. Tokens of all streams a "
        "second of CPU time of the server's processes: medians, in brackets the lowest and highest round. By the "
        "clock the medians stand behind; the machine had other work, at a load average of "
        f"{min(loads):.1f} to {max(loads):.1f} when the rounds began, so they say little. {result.machine.cpu}, "
        f"{result.machine.cores} cores.\n",
        f"| server | {' | '.join(f'{n} streams' for n in streams)} |",
        f"|---|{'---|' * len(streams)}",
        *(f"| {one.title} | {' | '.join(_cell(one, n) for n in streams)} |" for one in result.servers),
        "",
        f"llama.cpp's server: {result.peer_version}; it attends with its flash kernel, the engine without (ADR 0023).",
        "",
    ]


def _cell(one: EngineRates, streams: int) -> str:
    cpu, clock = one.tokens_per_cpu_s[streams], one.tokens_per_s[streams]
    return f"{statistics.median(cpu):.0f} ({min(cpu):.0f}-{max(cpu):.0f}), {statistics.median(clock):.0f}/s"
