"""What benchmarks/soak.py found, as results/soak.json keeps it and the page shows it."""

from __future__ import annotations

from dataclasses import dataclass

ANSWER_GOAL, MEMORY_GOAL, LATENCY_GOAL = 0, 0.02, 0.10


@dataclass(frozen=True)
class SoakKind:
    """The requests of one kind.

    Attributes:
        kind: The kind.
        asked: How many were sent.
        endings: How they ended, by ending.
        ttft_p50_s: Median time to the first piece of those answered.
        ttft_p95_s: Their 95th percentile.
        longest_s: The longest from sending to the end.
    """

    kind: str
    asked: int
    endings: dict[str, int]
    ttft_p50_s: float | None
    ttft_p95_s: float | None
    longest_s: float


@dataclass(frozen=True)
class SoakWindow:
    """Interactive requests in a part of the run: where it begins and ends, how many, p95 of TTFT and of the whole."""

    start_s: float
    end_s: float
    requests: int
    ttft_p95_s: float
    whole_p95_s: float


@dataclass(frozen=True)
class Soak:
    """results/soak.json.

    Attributes:
        date: When.
        cpu: The machine's processor.
        load_averages: Of the machine, at the start and at the end.
        minutes: How long.
        seed: Of the load.
        model: The model served.
        options: How it was served.
        kinds: The requests by kind.
        kills: Engine processes killed.
        hangs: Engine processes stopped, which the watchdog had to find.
        sensor_gone_s: How long the board's sensors were gone.
        faults: Rows of logits that were NaN, as the server counts.
        restarts: Engine processes started anew, as the server counts.
        fallbacks: Requests that went on in the fallback.
        first: The first window, behind the warm-up.
        last: The last window.
        rss_first_bytes: Resident memory of the server's process in the first window, the median.
        rss_last_bytes: In the last window.
        engine_rss_last_bytes: The engine's process in the last window.
        lost: Requests without an answer.
        other_texts: Answers to the same prompt that were another text than the first, which the fallback may give.
    """

    date: str
    cpu: str
    load_averages: tuple[float, float]
    minutes: float
    seed: int
    model: str
    options: str
    kinds: tuple[SoakKind, ...]
    kills: int
    hangs: int
    sensor_gone_s: float
    faults: int
    restarts: int
    fallbacks: int
    first: SoakWindow
    last: SoakWindow
    rss_first_bytes: int
    rss_last_bytes: int
    engine_rss_last_bytes: int
    lost: int
    other_texts: int

    @property
    def memory_growth(self) -> float:
        """Growth of the server's memory from the first window to the last, as a share."""
        return self.rss_last_bytes / self.rss_first_bytes - 1

    @property
    def latency_change(self) -> float:
        """Change of the p95 of whole interactive answers from the first window to the last, as a share."""
        return self.last.whole_p95_s / self.first.whole_p95_s - 1


def soak(result: Soak) -> list[str]:
    """The section of the page."""

    def met(ok: bool) -> str:
        return "met" if ok else "**missed**"

    first, last = result.first, result.last
    return [
        f"## {result.minutes:g} minutes of mixed load with faults\n",
        f"`python -m benchmarks.soak`, {result.date}. {result.model}, served by `chipwise serve {result.options}` in a "
        f"process of its own, open load (seed {result.seed}) from this one. {result.cpu}, load average "
        f"{result.load_averages[0]:.1f} at the start, {result.load_averages[1]:.1f} at the end. Injected: "
        f"{result.kills} kills of the engine's process, {result.hangs} hangs (SIGSTOP), {result.faults} steps with NaN "
        f"from a real weight that is NaN, sensors gone for {result.sensor_gone_s:.0f} s, clients that leave, nonsense. "
        f"{result.restarts} engines were started anew, {result.fallbacks} requests went on in the fallback.\n",
        "| requests | sent | answered | refused | error | client left | lost | TTFT p50 | p95 | longest |",
        "|---|---|---|---|---|---|---|---|---|---|",
        *(_kind(one) for one in result.kinds),
        "",
        "| goal | measured | |",
        "|---|---|---|",
        f"| no request without an answer | {result.lost} | {met(result.lost <= ANSWER_GOAL)} |",
        f"| memory flat (within {MEMORY_GOAL:.0%}) | {result.rss_first_bytes / 2**20:.0f} MiB, then "
        f"{result.rss_last_bytes / 2**20:.0f} MiB ({result.memory_growth:+.1%}) | "
        f"{met(abs(result.memory_growth) <= MEMORY_GOAL or result.memory_growth < 0)} |",
        f"| p95 of the last {(last.end_s - last.start_s) / 60:.0f} minutes within {LATENCY_GOAL:.0%} of the first | "
        f"{first.whole_p95_s * 1000:.0f} ms, then {last.whole_p95_s * 1000:.0f} ms ({result.latency_change:+.1%}) | "
        f"{met(result.latency_change <= LATENCY_GOAL)} |",
        "",
        f"The p95 is of whole interactive answers ({first.requests} and {last.requests}). {result.other_texts} answers "
        "to a prompt asked before were another text: those the unquantized fallback finished.\n",
    ]


def _kind(one: SoakKind) -> str:
    counts = " | ".join(str(one.endings.get(name, 0)) for name in ("answered", "refused", "error", "left", "lost"))
    p50, p95 = (("–" if s is None else f"{s * 1000:.0f} ms") for s in (one.ttft_p50_s, one.ttft_p95_s))
    return f"| {one.kind} | {one.asked} | {counts} | {p50} | {p95} | {one.longest_s:.1f} s |"
