"""The domain matrix as lines of a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from chipwise.report.html_format import DIMENSIONS, dimension, interval, number, percent, size
from chipwise.report.quality import DimensionScore, Quality
from chipwise.report.tried import TriedRecipe
from chipwise.report.verdict import Verdict

_WORDS = {"pass": "pass", "fail": "FAIL", "unclear": "not enough cases"}
_SHOWN = 100


def matrix_lines(
    matrix: Sequence[DimensionScore],
    verdicts: Sequence[Verdict],
    *,
    sides: tuple[str, str] = ("reference", "candidate"),
) -> Iterator[str]:
    """A table: a row a dimension with its verdict, its languages below; behind each share the interval of 95 %.

    Rows by other labels are for the report.
    """
    shown = [row for row in matrix if row.label == "all" or row.label.startswith("lang=")]
    head = ("dimension", "cases", *sides, "lost", "verdict")
    rows = [head, *(_cells(row, verdicts) for row in shown)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def semantic_lines(quality: Quality, worst: int = 3) -> Iterator[str]:
    """The semantic drift index, and the answers that drifted most, side by side."""
    drift = quality.semantic
    if drift is None:
        return
    low, high = drift.mean_interval
    yield (
        f"semantic drift (SDI, {drift.model}): mean {drift.mean:.3f} ({low:.3f} to {high:.3f}), "
        f"95th percentile {drift.p95:.3f}, largest {drift.max:.3f}, {drift.cases} cases"
    )
    if drift.blind:
        yield f"  {drift.blind} changed answers look the same to the embedding model: it does not know their words"
    for case in quality.drifted(worst):
        yield f"  {case.sdi:.3f}  {case.id}"
        yield f"         before: {_one_line(case.reference_answer or '')}"
        yield f"         now:    {_one_line(case.candidate_answer)}"


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else line[: _SHOWN - 3] + "..."


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


def speed_line(tried: TriedRecipe) -> str:
    """What a recipe takes, in one line."""
    parts = [size(tried.size_bytes)] if tried.size_bytes else []
    if tried.decode_tokens_per_s and tried.prefill_tokens_per_s:
        decode = _rate(tried.decode_tokens_per_s, tried.decode_spread_tokens_per_s)
        prefill = _rate(tried.prefill_tokens_per_s, tried.prefill_spread_tokens_per_s)
        earlier = " (in an earlier run)" if tried.timed_earlier else ""
        parts.append(f"decode {decode} tok/s, prefill {prefill} tok/s{earlier}")
    return f"{'reference' if tried.reference else 'candidate'} {tried.recipe}: {', '.join(parts)}"


def _rate(value: float, spread: float | None) -> str:
    return number(value) + (f" ± {number(spread, 2)}" if spread else "")
