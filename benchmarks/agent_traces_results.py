"""What benchmarks/agent_traces.py found, as results/agent_traces.json keeps it and the page shows it."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from benchmarks.results import MachineFacts, Missing

GUESSED, PLAIN, PEER = "chipwise", "chipwise_plain", "llama_server"
GOAL = 1.5
KINDS = {"tool_calls": "tool calls", "log_summaries": "logs", "prose": "prose"}


@dataclass(frozen=True)
class TraceAnswer:
    """One answer as its client saw it.

    Attributes:
        kind: What was asked for, a key of ``KINDS``.
        text: The answer.
        tokens: Its tokens, as the server counts them.
        ttft_s: From sending to the first piece.
        decode_s: From the first piece to the last.
    """

    kind: str
    text: str
    tokens: int
    ttft_s: float
    decode_s: float


@dataclass(frozen=True)
class TraceServer:
    """A server and its answers.

    Attributes:
        name: Its key.
        title: Its name for people.
        rounds: All answers of a round, in the same order in each.
        load_averages: When each round began.
        speculated: Tokens that it guessed and checked, of all rounds; None if it does not say.
        accepted: How many of these were right.
    """

    name: str
    title: str
    rounds: tuple[tuple[TraceAnswer, ...], ...]
    load_averages: tuple[float, ...]
    speculated: int | None = None
    accepted: int | None = None

    def rates(self, kind: str) -> list[float]:
        """Tokens a second of one kind, each round: after the first one of each answer."""
        found = []
        for answers in self.rounds:
            some = [one for one in answers if one.kind == kind]
            found.append(sum(one.tokens - 1 for one in some) / sum(one.decode_s for one in some))
        return found


@dataclass(frozen=True)
class AgentTraces:
    """results/agent_traces.json."""

    date: str
    model: str
    machine: MachineFacts
    peer_version: str | None
    threads: int
    servers: tuple[TraceServer, ...]
    missing: tuple[Missing, ...]

    def server(self, name: str) -> TraceServer | None:
        """A server by its key."""
        return next((one for one in self.servers if one.name == name), None)

    def ratio(self, kind: str, over: str) -> float | None:
        """Tokens a second with guesses over another server's, the median of the rounds'; None if that was not there."""
        own, other = self.server(GUESSED), self.server(over)
        if own is None or other is None:
            return None
        return statistics.median(one / two for one, two in zip(own.rates(kind), other.rates(kind), strict=True))

    def same(self, kind: str) -> tuple[int, int]:
        """How many answers are the same with and without guesses, and how many there are."""
        ours = [server.rounds for server in self.servers if server.name in (GUESSED, PLAIN)]
        pairs = [
            (one.text, two.text)
            for guessed, plain in zip(*ours, strict=True)
            for one, two in zip(guessed, plain, strict=True)
            if one.kind == kind
        ]
        return sum(one == two for one, two in pairs), len(pairs)


def agent_traces(result: AgentTraces) -> list[str]:
    """The section of the page."""
    loads = [load for server in result.servers for load in server.load_averages]
    own = result.server(GUESSED)
    guessed = (
        "" if own is None or own.speculated is None else f"{own.accepted} of {own.speculated} guessed tokens right"
    )
    return [
        "## Agent traces\n",
        f"`python -m benchmarks.agent_traces`, {result.date}. {result.model}, threads: {result.threads}, one greedy "
        f"request after the other, {len(result.servers[0].rounds)} rounds, the servers in turns. Calls are JSON under "
        "an enforced schema; logs are asked to be repeated or summed up; prose cannot be guessed well. Tokens a second "
        f"behind the first one of each answer, medians of the rounds. {guessed}.\n",
        f"Machine: {result.machine.cpu}, {result.machine.cores} cores, {result.machine.system}. Load average "
        f"{min(loads):.1f} to {max(loads):.1f} when the rounds began.\n",
        "| server | " + " | ".join(KINDS.values()) + " |",
        "|---" * (1 + len(KINDS)) + "|",
        *(
            f"| {server.title} | " + " | ".join(f"{statistics.median(server.rates(kind)):.0f}" for kind in KINDS) + " |"
            for server in result.servers
        ),
        "",
        "| guessed, over | " + " | ".join(KINDS.values()) + " |",
        "|---" * (1 + len(KINDS)) + "|",
        *(
            f"| {server.title} | " + " | ".join(f"{result.ratio(kind, server.name):.2f}" for kind in KINDS) + " |"
            for server in result.servers
            if server.name != GUESSED
        ),
        "",
        f"Goal for calls and logs: {GOAL} of the peer. The same text with and without guesses: "
        + ", ".join(f"{KINDS[kind]} {result.same(kind)[0]} of {result.same(kind)[1]}" for kind in KINDS)
        + " (goal: all).\n",
        *(f"{missing.title} is not in the tables: {missing.reason}.\n" for missing in result.missing),
        *([f"llama.cpp's server: {result.peer_version}.\n"] if result.peer_version else []),
    ]
