from __future__ import annotations

import math

import pytest

from chipwise.report.quality import CaseResult
from chipwise.verify.matrix import domain_matrix


def result(dimension: str | None, before: bool | None, after: bool | None, **labels: str) -> CaseResult:
    def missing(right: bool | None) -> tuple[str, ...] | None:
        return None if right is None else () if right else ("x",)

    return CaseResult("c", "q", None, None, "a", missing(before), missing(after), labels=labels, dimension=dimension)


def test_a_row_a_dimension_then_a_row_a_label() -> None:
    results = [
        *(result("logic", True, True, lang="en", domain="home") for _ in range(6)),
        *(result("logic", True, False, lang="zh", domain="home") for _ in range(3)),
        result("logic", False, True, lang="zh", domain="home"),
        result("keyword", True, True),
        result(None, None, None),
        result("noise", None, None),
    ]
    rows = domain_matrix(results)
    assert [(row.dimension, row.label, row.scored) for row in rows] == [
        ("keyword", "all", 1), ("logic", "all", 10), ("logic", "lang=en", 6), ("logic", "lang=zh", 4),
    ]  # fmt: skip
    logic = rows[1]
    assert (logic.reference, logic.candidate, logic.broke, logic.fixed) == (9, 7, 3, 1)
    assert logic.drop == 0.2
    assert logic.loss is not None
    assert logic.loss[0] < 0.2 < logic.loss[1]
    assert logic.reference_share is not None
    assert logic.reference_share[0] < 0.9 < logic.reference_share[1]
    assert logic.flips_p == pytest.approx(0.375)


def test_a_candidate_alone() -> None:
    (row,) = domain_matrix([result("noise", None, True), result("noise", None, False)])
    assert (row.reference, row.reference_share, row.loss, row.flips_p) == (None, None, None, None)
    assert row.candidate == 1
    assert math.isnan(row.drop)


def test_no_case_no_row() -> None:
    assert domain_matrix([]) == ()
