"""The domain matrix as lines of a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from chipwise.report.html_format import DIMENSIONS, dimension, interval, percent
from chipwise.report.quality import DimensionScore
from chipwise.report.verdict import Verdict

_WORDS = {"pass": "pass", "fail": "FAIL", "unclear": "not enough cases"}
_HEAD = ("dimension", "cases", "reference", "candidate", "lost", "verdict")


def matrix_lines(matrix: Sequence[DimensionScore], verdicts: Sequence[Verdict]) -> Iterator[str]:
    """A table: a row a dimension with its verdict, its labels below; behind each share the interval of 95 %."""
    rows = [_HEAD, *(_cells(row, verdicts) for row in matrix)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEAD))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _cells(row: DimensionScore, verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    whole = row.label == "all"
    lost = "-" if row.loss is None else f"{100 * row.drop:.1f} ({interval(row.loss)})"
    return (
        dimension(row.dimension) if whole else f"  {row.label}",
        str(row.scored),
        "-" if row.reference is None else f"{percent(row.reference / row.scored)} ({interval(row.reference_share)})",
        f"{percent(row.candidate / row.scored)} ({interval(row.candidate_share)})",
        lost,
        _verdict(row, verdicts) if whole else "",
    )


def _verdict(row: DimensionScore, verdicts: Sequence[Verdict]) -> str:
    metric = DIMENSIONS[row.dimension][0]
    of_row = [v for v in verdicts if v.metric in (metric, f"{metric}_drop", f"{metric}_reference")]
    for outcome in ("fail", "unclear", "pass"):
        found = [v for v in of_row if v.outcome == outcome]
        if found:
            more = f", about {found[0].more_cases} more" if found[0].more_cases else ""
            return f"{_WORDS[outcome]}{more}"
    return ""
