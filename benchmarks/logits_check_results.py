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
        check_s: The check of its logits, the median.
        share: The second over the first.
    """

    bundle: str
    vocab: int
    rows: int
    step_s: float
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
        f"infinity, all zero and all equal. Medians of {result.steps} decode steps with {result.threads} thread(s), "
        f"each followed by its check. {result.cpu}, load average {result.load_average:.1f}.\n",
        "| bundle | logits a row | rows | step | check | share |",
        "|---|---|---|---|---|---|",
        *(
            f"| {row.bundle} | {row.vocab} | {row.rows} | {row.step_s * 1e3:.2f} ms | {row.check_s * 1e6:.0f} us "
            f"| {row.share:.2%} |"
            for row in result.rows
        ),
        "",
        f"Goal: under {result.goal:.0%} of a step: {'met' if result.met else 'missed'}.\n",
    ]
