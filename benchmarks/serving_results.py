"""What benchmarks/serving.py found, as results/serving.json keeps it and the page shows it."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

import numpy as np

from benchmarks.results import MachineFacts, Missing

_TTFT_GOAL, _BACKGROUND_GOAL, _STREAMS_GOAL, _SHARED_GOAL = 1.5, 0.9, 1.0, 0.15
_OWN = "chipwise"


@dataclass(frozen=True)
class Rate:
    """Tokens a second over the rounds."""

    median: float
    lowest: float
    highest: float
    rounds: tuple[float, ...]


@dataclass(frozen=True)
class Urgent:
    """One round of urgent requests beside background work.

    Attributes:
        alone_ttft_s: Times to the first token of urgent requests when nothing else runs.
        loaded_ttft_s: Beside four background streams.
        background_alone: Tokens a second of these streams without urgent requests.
        background_beside: With them.
        share: What the urgent requests take when they run alone, as a part of the window.
    """

    alone_ttft_s: tuple[float, ...]
    loaded_ttft_s: tuple[float, ...]
    background_alone: float
    background_beside: float
    share: float

    @property
    def alone_s(self) -> float:
        """Median time to the first token of an urgent request alone."""
        return statistics.median(self.alone_ttft_s)

    def multiple(self, percentile: float) -> float:
        """A percentile beside background work, over the median alone."""
        return float(np.percentile(self.loaded_ttft_s, percentile)) / self.alone_s

    @property
    def background_ratio(self) -> float:
        """Background throughput over what is left of it when urgent work takes its share."""
        return self.background_beside / (self.background_alone * (1 - self.share))


@dataclass(frozen=True)
class Streams:
    """Tokens a second of so many streams together."""

    streams: int
    rate: Rate


@dataclass(frozen=True)
class SharedPrompt:
    """Pairs of requests that begin with the same 600 tokens: time to the first token of the first and the second."""

    first_ttft_s: tuple[float, ...]
    second_ttft_s: tuple[float, ...]
    cached_tokens: tuple[int, ...]

    @property
    def ratio(self) -> float:
        """The median of the second's over the first's."""
        return statistics.median(two / one for one, two in zip(self.first_ttft_s, self.second_ttft_s, strict=True))


@dataclass(frozen=True)
class ServedOutcome:
    """One server's rounds."""

    name: str
    title: str
    load_averages: tuple[float, ...]
    urgent: tuple[Urgent, ...]
    streams: tuple[Streams, ...]
    shared: SharedPrompt

    def multiple(self, percentile: float) -> float:
        """A percentile over all rounds' urgent requests, each over its own round's median alone."""
        multiples = [ttft_s / one.alone_s for one in self.urgent for ttft_s in one.loaded_ttft_s]
        return float(np.percentile(multiples, percentile))

    @property
    def background_ratio(self) -> float:
        """The median of the rounds'."""
        return statistics.median(one.background_ratio for one in self.urgent)


@dataclass(frozen=True)
class ServingVerdict:
    """A goal and what was found."""

    question: str
    value: float
    goal: str
    met: bool


@dataclass(frozen=True)
class Serving:
    """results/serving.json."""

    date: str
    model: str
    machine: MachineFacts
    peer_version: str | None
    threads: int
    context: int
    window_s: float
    outcomes: tuple[ServedOutcome, ...]
    missing: tuple[Missing, ...]
    verdicts: tuple[ServingVerdict, ...]


def verdicts(outcomes: tuple[ServedOutcome, ...]) -> tuple[ServingVerdict, ...]:
    """The goals, as far as those that they compare were there."""
    own = next(one for one in outcomes if one.name == _OWN)
    peer = next((one for one in outcomes if one.name != _OWN), None)
    p95, left, shared = own.multiple(95), own.background_ratio, own.shared.ratio
    found = [
        ServingVerdict("urgent TTFT, p95 over alone", p95, f"at most {_TTFT_GOAL}", p95 <= _TTFT_GOAL),
        ServingVerdict("background beside urgent", left, f"at least {_BACKGROUND_GOAL}", left >= _BACKGROUND_GOAL),
    ]
    for ours, theirs in zip(own.streams, peer.streams if peer else (), strict=False):
        pairs = zip(ours.rate.rounds, theirs.rate.rounds, strict=True)
        value = statistics.median(one / two for one, two in pairs)
        name = f"tokens/s at {ours.streams} streams, over the peer's"
        found.append(ServingVerdict(name, value, f"at least {_STREAMS_GOAL}", value >= _STREAMS_GOAL))
    name = "shared prompt, second TTFT over first"
    found.append(ServingVerdict(name, shared, f"at most {_SHARED_GOAL}", shared <= _SHARED_GOAL))
    return tuple(found)


def serving(result: Serving) -> list[str]:
    """The section of the page."""
    rounds = len(result.outcomes[0].urgent)
    loads = [load for outcome in result.outcomes for load in outcome.load_averages]
    return [
        "## Serving under load\n",
        f"`python -m benchmarks.serving`, {result.date}. {result.model}, threads: {result.threads}, {result.context} "
        f"tokens a slot; servers and client in processes of their own on one machine. {rounds} rounds, the servers in "
        f"turns, each started anew a round; windows of {result.window_s:.0f} s. Prompts are random tokens, so that "
        "nothing is reused but where the prompts are meant to be shared.\n",
        f"Machine: {result.machine.cpu}, {result.machine.cores} cores, {result.machine.system}. Load average "
        f"{min(loads):.1f} to {max(loads):.1f} when the rounds began.\n",
        "**Urgent requests** of 64 tokens at random times beside four background streams that saturate the server. "
        "Time to the first token as a multiple of the median when nothing else runs; background throughput over what "
        "is left of it when urgent work takes its share.\n",
        "| server | alone | p50 | p95 | p99 | requests | background |",
        "|---|---|---|---|---|---|---|",
        *(_urgent_row(one) for one in result.outcomes),
        "",
        "llama.cpp's server knows no priorities; it was given a fifth slot, so that urgent requests need not wait for "
        "one.\n",
        "**Tokens a second** of all streams together, 64 prompt tokens and up to 96 generated a request; medians, in "
        "brackets the slowest and fastest round.\n",
        "| server | " + " | ".join(f"{one.streams} streams" for one in result.outcomes[0].streams) + " |",
        "|---" * (1 + len(result.outcomes[0].streams)) + "|",
        *(_streams_row(one) for one in result.outcomes),
        "",
        "**A shared prompt** of 600 tokens, and 20 tokens of each request's own: time to the first token.\n",
        "| server | first | second | ratio | tokens reused |",
        "|---|---|---|---|---|",
        *(_shared_row(one) for one in result.outcomes),
        "",
        *(f"{missing.title} is not in the tables: {missing.reason}.\n" for missing in result.missing),
        "| goal | found | | |",
        "|---|---|---|---|",
        *(f"| {v.question} | **{v.value:.2f}** | {v.goal} | {'met' if v.met else 'missed'} |" for v in result.verdicts),
        "",
        *([f"llama.cpp's server: {result.peer_version}.\n"] if result.peer_version else []),
    ]


def _urgent_row(one: ServedOutcome) -> str:
    alone_ms = statistics.median(ttft_s for found in one.urgent for ttft_s in found.alone_ttft_s) * 1000
    multiples = " | ".join(f"{one.multiple(percentile):.2f}" for percentile in (50, 95, 99))
    count = sum(len(found.loaded_ttft_s) for found in one.urgent)
    return f"| {one.title} | {alone_ms:.0f} ms | {multiples} | {count} | {one.background_ratio:.2f} |"


def _streams_row(one: ServedOutcome) -> str:
    cells = (f"{s.rate.median:.0f} ({s.rate.lowest:.0f}-{s.rate.highest:.0f})" for s in one.streams)
    return f"| {one.title} | {' | '.join(cells)} |"


def _shared_row(one: ServedOutcome) -> str:
    first, second = (statistics.median(times) * 1000 for times in (one.shared.first_ttft_s, one.shared.second_ttft_s))
    reused = statistics.median(one.shared.cached_tokens)
    return f"| {one.title} | {first:.0f} ms | {second:.0f} ms | {one.shared.ratio:.3f} | {reused:.0f} |"
