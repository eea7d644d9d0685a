from __future__ import annotations

from dataclasses import replace

from chipwise.report.html_dimensions import shown_dimensions, unscored_dimensions
from chipwise.report.quality import DimensionScore, Quality
from chipwise.report.report import Report
from tests.report.samples import full_report


def test_each_dimension_with_its_verdict() -> None:
    report = full_report()
    shown = shown_dimensions(report)
    assert [one.name for one in shown] == [
        "Keyword fidelity", "Logical consistency", "Long-range recall", "Noise robustness",
    ]  # fmt: skip
    first = shown[0]
    assert first.verdict is not None
    assert first.verdict.outcome == "fail"
    assert shown[1].verdict is None
    assert first.lost == "12 points lost (7 to 18)"
    assert first.flips == "13 broke, 1 fixed (two-sided p = 0.002)"
    assert first.reference is not None
    assert (first.reference.at, first.candidate.at) == (97.0, 85.0)
    assert first.candidate.words == "85 % (79 to 88 %)"
    assert unscored_dimensions(report) == ""


def test_a_candidate_alone_and_what_was_not_scored() -> None:
    alone = DimensionScore("logic", "all", 10, None, None, 10, (0.7, 1.0))
    report = Report("t", "host", "m", "w4a16", quality=Quality((), matrix=(alone,)))
    (one,) = shown_dimensions(report)
    assert one.reference is None
    assert one.lost == one.flips == ""
    assert (one.candidate.left, one.candidate.width) == (70.0, 30.0)
    assert unscored_dimensions(report) == "keyword fidelity, long-range recall, noise robustness"
    assert unscored_dimensions(replace(report, quality=None)) == ""
    assert shown_dimensions(replace(report, quality=None)) == []


def test_a_gain_is_no_loss() -> None:
    row = DimensionScore("noise", "all", 100, 90, (0.8, 0.95), 91, (0.8, 0.95), 0, 1, (-0.06, 0.02))
    report = Report("t", "host", "m", "w4a16", quality=Quality((), matrix=(row,)))
    assert shown_dimensions(report)[0].lost == "1 point gained (-6 to 2)"
