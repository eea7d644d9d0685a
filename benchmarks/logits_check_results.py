"""What the check of logits costs, as results/logits_check.json keeps it, and its section of the page."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CheckRow:
    """Decode steps of one bundle at one number of rows.

    Attributes:
        bundle: Its name.
        vocab: Logits a row.
        rows: Requests that decode together.
        step_s: A step, the median.
        choice_s: Finding the likeliest tokens alone, the median.
        both_s: Finding them and checking the logits, the median.
        check_s: What the check adds: the second less the first.
        share: That over a step.
    """

    bundle: str
    vocab: int
    rows: int
    step_s: float
    choice_s: float
    both_s: float
    check_s: float
    share: float


@dataclass(frozen=True)
class LogitsCheckCost:
    """results/logits_check.json."""

    date: str
    cpu: str
    threads: int
    steps: int
    load_average: float
    rows: tuple[CheckRow, ...]
    goal: float
    met: bool


def logits_check(result: LogitsCheckCost) -> list[str]:
    """What the check costs beside a step."""
    return [
        "## Cost of looking for numeric faults\n",
        f"`python -m benchmarks.logits_check BUNDLE...`, {result.date}. Every step's logits are checked for NaN, "
        "infinity, all zero and all equal, in the look that finds the likeliest tokens. Medians of "
        f"{result.steps} decode steps with {result.threads} thread(s), each followed by that look or, in turns, by one "
        "for the likeliest tokens alone, which every choice needs; the check is what it takes longer. "
        f"{result.cpu}, load average {result.load_average:.1f}.\n",
        "| bundle | logits a row | rows | step | likeliest alone | with the check | check | share |",
        "|---|---|---|---|---|---|---|---|",
        *(
            f"| {row.bundle} | {row.vocab} | {row.rows} | {row.step_s * 1e3:.2f} ms | {row.choice_s * 1e6:.1f} us "
            f"| {row.both_s * 1e6:.1f} us | {row.check_s * 1e6:.1f} us "
            f"| {row.share:.2%} |"
            for row in result.rows
        ),
        "",
        f"Goal: under {result.goal:.0%} of a step: {'met' if result.met else 'missed'}.\n",
    ]
