"""The four dimensions as the page shows them: shares with their intervals, before and after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chipwise.report.html_format import DIMENSIONS, interval, percent
from chipwise.report.quality import DimensionScore, Interval, Quality
from chipwise.report.report import Report
from chipwise.report.verdict import Verdict


@dataclass(frozen=True)
class Track:
    """A share and its interval as places on a line from 0 to 100 %.

    Attributes:
        at: Place of the share, in percent of the line.
        left: Where its interval begins.
        width: How long it is.
        words: All of it in words.
    """

    at: float
    left: float
    width: float
    words: str


@dataclass(frozen=True)
class ShownDimension:
    """One dimension.

    Attributes:
        name: What people call it.
        scored: Cases scored.
        verdict: What the gate says of it; None if it was not judged.
        candidate: The candidate's share.
        reference: The reference's; None if none ran.
        lost: What was lost, in words; empty without a reference.
        flips: What broke and what was mended, in words; empty without a reference.
    """

    name: str
    scored: int
    verdict: Verdict | None
    candidate: Track
    reference: Track | None
    lost: str
    flips: str


def shown_dimensions(report: Report) -> list[ShownDimension]:
    """The dimensions that were scored, in their order."""
    return dimensions_of(report.quality, report.verdicts) if report.quality else []


def dimensions_of(quality: Quality, verdicts: Sequence[Verdict]) -> list[ShownDimension]:
    """The dimensions of a quality, with what a gate said of them."""
    return [_shown(row, verdicts) for row in quality.matrix if row.label == "all"]


def unscored_dimensions(report: Report) -> str:
    """The dimensions of which no case was scored, in words; empty if there is none, or no other was."""
    scored = {row.dimension for row in report.quality.matrix} if report.quality else set()
    if not scored:
        return ""
    return ", ".join(label.lower() for name, (_, label, _) in DIMENSIONS.items() if name not in scored)


def _shown(row: DimensionScore, verdicts: Sequence[Verdict]) -> ShownDimension:
    metric, name, _ = DIMENSIONS[row.dimension]
    wanted = metric if row.reference is None else f"{metric}_drop"
    verdict = next((one for one in verdicts if one.metric == wanted), None)
    reference = None
    if row.reference is not None and row.reference_share is not None:
        reference = _track(row.reference / row.scored, row.reference_share)
    lost = flips = ""
    if row.loss is not None:
        points = f"{abs(100 * row.drop):.1f}".removesuffix(".0")
        did = "lost" if row.drop > 0 else "gained" if row.drop < 0 else "lost"
        ends = " to ".join(f"{100 * end:.1f}".removesuffix(".0") for end in row.loss)
        lost = f"{points} point{'' if points == '1' else 's'} {did} ({ends})"
        flips = f"{row.broke} broke, {row.fixed} fixed"
        if row.flips_p is not None and row.broke + row.fixed:
            flips += f" (two-sided p = {row.flips_p:.2g})"
    candidate = _track(row.candidate / row.scored, row.candidate_share)
    return ShownDimension(name, row.scored, verdict, candidate, reference, lost, flips)


def _track(share: float, ends: Interval) -> Track:
    low, high = (100 * min(1.0, max(0.0, end)) for end in ends)
    return Track(100 * share, low, max(0.4, high - low), f"{percent(share)} ({interval(ends)})")
