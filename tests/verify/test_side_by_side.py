from __future__ import annotations

from dataclasses import replace

import pytest

from chipwise.errors import InputError
from chipwise.report.quality import CaseResult, Quality
from chipwise.report.report import Report
from chipwise.verify.side_by_side import paired


def report(right: str, *, suite: str = "home, sha256 1", ids: str = "abcd", version: str = "0.1.0") -> Report:
    cases = tuple(
        CaseResult(
            name, f"q {name}", "yes", "ref", f"{name in right}", (), () if name in right else ("yes",), 0.1, 0.9,
            dimension="keyword",
        )
        for name in ids
    )  # fmt: skip
    return Report(
        "t", "host", "m", "w4a16", quality=Quality(cases), provenance={"suite": suite}, versions={"chipwise": version}
    )


def test_a_takes_the_references_place_case_by_case() -> None:
    quality, notes = paired(report("abc"), report("ad"))
    (row,) = quality.matrix
    assert (row.reference, row.candidate, row.broke, row.fixed) == (3, 2, 2, 1)
    assert [case.broke for case in quality.cases] == [False, True, True, False]
    assert [case.reference_answer for case in quality.cases] == ["True", "True", "True", "False"]
    assert quality.cases[0].kl_mean_nats is None  # it was drift from the float model, not from A
    assert quality.answers_changed == 3
    assert notes == ()


def test_cases_in_one_of_them_only_are_left_out_and_said() -> None:
    quality, notes = paired(report("abcd"), report("ab", ids="abxy"))
    assert [case.id for case in quality.cases] == ["a", "b"]
    assert notes == ("2 cases are in both reports, of 4 of A and 4 of B",)


def test_another_version_is_said() -> None:
    _, notes = paired(report("a"), report("a", version="0.2.0"))
    assert notes[0].startswith("A was scored by chipwise 0.1.0, B by 0.2.0")


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (report("a", suite="car, sha256 2"), "A on home, sha256 1, B on car, sha256 2"),
        (report("a", ids="xyz"), "verified on different cases"),
        (replace(report("a"), quality=None), "the report of B has no cases"),
        (replace(report("a"), provenance={}), "B on cases of unknown source"),
    ],
)
def test_what_cannot_be_compared(other: Report, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        paired(report("a"), other)
    assert "--suite" in str(caught.value)
