"""What an engine in a process of its own costs, as results/isolation.json keeps it, and its section of the page."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class IsolationRow:
    """Decode steps of one bundle at one number of rows.

    Attributes:
        bundle: Its name.
        vocab: Logits a row.
        rows: Requests that decode together.
        here_per_s: Tokens a second in the caller's process, of the median step.
        there_per_s: Tokens a second in a process of its own, likewise.
        ratio: The second over the first, the median of the rounds.
        lowest: The lowest round.
        highest: The highest round.
        open_s: Time to start the process, open the bundle in it and run its self-test.
    """

    bundle: str
    vocab: int
    rows: int
    here_per_s: float
    there_per_s: float
    ratio: float
    lowest: float
    highest: float
    open_s: float


@dataclass(frozen=True)
class IsolationCost:
    """results/isolation.json; ``load_average`` is that when it began."""

    date: str
    cpu: str
    cores: int
    threads: int
    steps: int
    rounds: int
    load_average: float
    rows: tuple[IsolationRow, ...]


def isolation(result: IsolationCost) -> list[str]:
    """What the second process costs."""
    return [
        "## An engine in a process of its own\n",
        f"`python -m benchmarks.isolation BUNDLE...`, {result.date}. The same bundle open in the caller's process and "
        f"in one of its own; both decode in turns with {result.threads} thread(s), to the same bits. Medians of "
        f"{result.rounds} rounds of {result.steps} steps, in brackets the slowest and fastest round. {result.cpu}, "
        f"{result.cores} cores, load average {result.load_average:.1f}: where programs wait for a core, a second "
        "process waits once more a step.\n",
        "| bundle | logits a row | rows | tokens/s in process | tokens/s isolated | ratio | starts in |",
        "|---|---|---|---|---|---|---|",
        *(
            f"| {row.bundle} | {row.vocab} | {row.rows} | {row.here_per_s:.1f} | {row.there_per_s:.1f} "
            f"| {row.ratio:.3f} ({row.lowest:.3f}-{row.highest:.3f}) | {row.open_s:.1f} s |"
            for row in result.rows
        ),
        "",
    ]
