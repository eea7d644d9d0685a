"""Two bundles compared: their answers to the same cases, paired by case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from chipwise.errors import InputError
from chipwise.report.quality import CaseResult, Quality
from chipwise.report.report import Report
from chipwise.verify.matrix import domain_matrix


def paired(a: Report, b: Report) -> tuple[Quality, tuple[str, ...]]:
    """What two reports say of the same cases, the first in the reference's place, and what to bear in mind.

    Raises:
        InputError: One judged no cases, or the two judged others.
    """
    ours, theirs = _answered(a, "A"), _answered(b, "B")
    by_id = {case.id: case for case in ours}
    both = [(by_id[case.id], case) for case in theirs if case.id in by_id and by_id[case.id].prompt == case.prompt]
    if not both or _source(a) != _source(b):
        raise InputError(
            f"verified on different cases: A on {_source(a)}, B on {_source(b)}",
            remedy="run both through the same with --suite",
        )
    notes = []
    if len(both) < max(len(ours), len(theirs)):
        notes.append(f"{len(both)} cases are in both reports, of {len(ours)} of A and {len(theirs)} of B")
    versions = [report.versions.get("chipwise", "unknown") for report in (a, b)]
    if versions[0] != versions[1]:
        notes.append(
            f"A was scored by chipwise {versions[0]}, B by {versions[1]}, whose rules may differ; "
            "--suite runs both here"
        )
    results = tuple(_pair(one, other) for one, other in both)
    return Quality(cases=results, matrix=domain_matrix(results)), tuple(notes)


def _answered(report: Report, side: str) -> Sequence[CaseResult]:
    if report.quality is None or not report.quality.cases:
        raise InputError(f"the report of {side} has no cases", remedy="run both through a suite with --suite")
    return report.quality.cases


def _source(report: Report) -> str:
    """Where a report's cases are from: its suite, or without one its queries."""
    for name in ("suite", "suite sha256", "queries"):
        if name in report.provenance:
            return report.provenance[name]
    return "cases of unknown source"


def _pair(a: CaseResult, b: CaseResult) -> CaseResult:
    return replace(
        b,
        reference_answer=a.candidate_answer,
        missing_reference=a.missing_candidate,
        kl_mean_nats=None,
        top1_agreement=None,
        sdi=None,
        finite=a.finite and b.finite,
    )
