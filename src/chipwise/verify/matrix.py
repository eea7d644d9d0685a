"""The domain matrix: each dimension of a suite, reference beside candidate, with what the counts prove."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from chipwise.report.quality import CaseResult, DimensionScore
from chipwise.verify.certainty.mcnemar import mcnemar
from chipwise.verify.certainty.paired import loss_interval
from chipwise.verify.certainty.wilson import wilson_interval
from chipwise.verify.scoring.settings import DIMENSIONS


def domain_matrix(results: Sequence[CaseResult]) -> tuple[DimensionScore, ...]:
    """The rows of the matrix: a dimension's cases together, then by each of their labels.

    Args:
        results: The cases that ran; those that were not scored are in no row.
    """
    return tuple(row for dimension in DIMENSIONS for row in _rows(dimension, results))


def _rows(dimension: str, results: Sequence[CaseResult]) -> Iterator[DimensionScore]:
    scored = [case for case in results if case.dimension == dimension and case.missing_candidate is not None]
    if not scored:
        return
    yield _row(dimension, "all", scored)
    for name in sorted({name for case in scored for name in case.labels}):
        values = sorted({case.labels[name] for case in scored if name in case.labels})
        # One value of all cases would be the first row again.
        for value in values if len(values) > 1 or any(name not in case.labels for case in scored) else ():
            yield _row(dimension, f"{name}={value}", [case for case in scored if case.labels.get(name) == value])


def _row(dimension: str, label: str, cases: Sequence[CaseResult]) -> DimensionScore:
    n, right = len(cases), sum(not case.missing_candidate for case in cases)
    share = wilson_interval(right, n)
    if any(case.missing_reference is None for case in cases):
        return DimensionScore(dimension, label, n, None, None, right, share)
    before = sum(not case.missing_reference for case in cases)
    broke = sum(case.broke for case in cases)
    fixed = sum(bool(case.missing_reference) and not case.missing_candidate for case in cases)
    return DimensionScore(
        dimension, label, n, before, wilson_interval(before, n), right, share, broke, fixed,
        loss_interval(broke, fixed, n), mcnemar(broke, fixed, mid=True),
    )  # fmt: skip
