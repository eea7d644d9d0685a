from __future__ import annotations

from dataclasses import replace

import pytest

from chipwise.report import Finding, Verdict
from chipwise.report.caveats import FEW_CASES, caveats
from chipwise.report.html import render_html
from chipwise.report.quality import CaseResult, DimensionScore, Quality
from chipwise.report.report import Report
from tests.report.samples import summary

CASE = CaseResult("a", "q", None, "yes", "no")
SCORED = (DimensionScore("keyword", "all", 1, 1, (0.2, 1.0), 0, (0.0, 0.8), 1),)
BARE = Report("t", "rk3588", "m", "w8a8")


def _said(quality: Quality | None, emulates: str | None = None) -> str:
    report = replace(BARE, quality=quality, emulates=emulates)
    said = caveats(report)
    banner = render_html(report).split('<div class="verdict')[1].split("</div>")[0]
    assert all(one.replace("'", "&#39;") in banner for one in said)
    return " ".join(said)


def test_what_was_scored_on_enough_cases_needs_no_caveat() -> None:
    assert _said(Quality((CASE,) * FEW_CASES, answer=summary(100, 0.1), matrix=SCORED)) == ""
    assert _said(None) == ""


def test_what_a_passed_gate_does_not_tell_is_told() -> None:
    finding = Finding(
        "rknn_nothing_on_npu", "warning", "GridSample", "0", "the work", "all of it runs on the CPU", "none"
    )
    (said,) = caveats(replace(BARE, findings=(finding, replace(finding, rule="rknn_cpu_operator"))))
    assert said == "All of it runs on the CPU."


def test_drift_alone_is_not_the_task() -> None:
    cases = (CASE,) * FEW_CASES
    assert _said(Quality(cases, answer=summary(100, 0.1))).startswith(
        "Drift only: your task was not scored; give --suite"
    )
    assert _said(Quality(cases)).startswith("Your task was not scored")


@pytest.mark.parametrize(("n", "words"), [(1, "Only 1 case was verified"), (19, "Only 19 cases were verified")])
def test_few_cases_prove_little(n: int, words: str) -> None:
    assert words in _said(Quality((CASE,) * n, matrix=SCORED))


def test_gates_that_are_not_sure_are_counted() -> None:
    unsure = Verdict("noise_robustness_drop", 0.0, 0.03, "max", passed=True, sure=False, more_cases=68)
    report = replace(BARE, quality=Quality((CASE,) * FEW_CASES, matrix=SCORED), verdicts=(unsure,))
    assert caveats(report) == ("Not enough cases to be sure of 1 of the gates; about 68 more of each would do.",)
    assert "Not sure yet" in render_html(report)
    assert (report.outcome, report.holds) == ("unclear", True)


def test_no_case_at_all_is_for_the_gate_to_say() -> None:
    assert _said(Quality(())) == ""


@pytest.mark.parametrize(("n", "said"), [(6, "Only 6 samples were verified"), (FEW_CASES, ""), (0, "")])
def test_few_samples_of_a_graph_prove_little(n: int, said: str) -> None:
    assert " ".join(caveats(replace(BARE, samples=n))).startswith(said)
    assert bool(caveats(replace(BARE, samples=n))) is bool(said)


def test_an_emulated_chip_is_named() -> None:
    assert "Emulated: rk3588's arithmetic" in _said(None, "rk3588")


ENOUGH = (CASE,) * FEW_CASES
LOST = DimensionScore("keyword", "all", 120, 60, (0.4, 0.6), 60, (0.4, 0.6), 0, 0, (-0.031, 0.031))


def test_a_rounded_reference_is_named() -> None:
    report = replace(BARE, quality=Quality(ENOUGH, matrix=(LOST,)), reference_precision="int4")
    assert caveats(report)[0].startswith("The reference itself is stored in int4")


@pytest.mark.parametrize(
    ("certainty", "words"), [(0.0, "as measured, however few"), (0.8, "only 80% sure"), (0.95, "")]
)
def test_a_lowered_certainty_is_said_and_no_order_to_ship(certainty: float, words: str) -> None:
    passed = Verdict.judge("keyword_fidelity_drop", 0.0, 0.04, "max")
    report = replace(BARE, quality=Quality(ENOUGH, matrix=(LOST,)), verdicts=(passed,), certainty=certainty)
    assert words in " ".join(caveats(report))
    assert ("Ship it" in render_html(report)) is (certainty == 0.95)
    assert bool(caveats(report)) is (certainty < 0.95)


def test_a_reference_that_cannot_do_it_is_said() -> None:
    row = replace(LOST, reference=0, candidate=0)
    assert _said(Quality(ENOUGH, matrix=(row,))) == (
        "Keyword fidelity: the reference has 0 of 120 right, so there was little to lose."
    )
    failed = Verdict.judge("keyword_fidelity_reference", 0.0, 0.5, "min")
    assert caveats(replace(BARE, quality=Quality(ENOUGH, matrix=(row,)), verdicts=(failed,))) == ()


def test_an_interval_that_reaches_beyond_a_limit_that_holds_is_explained() -> None:
    passed = Verdict.judge("keyword_fidelity_drop", 0.0, 0.03, "max")
    report = replace(BARE, quality=Quality(ENOUGH, matrix=(LOST,)), verdicts=(passed,), certainty=0.95)
    assert caveats(report) == (
        "Keyword fidelity: a loss of more than 3 points is ruled out at 95%, one-sided; the interval shown is two-sided"
        " and wider, up to 3.1.",
    )
    assert caveats(replace(report, verdicts=(replace(passed, sure=False),))) != caveats(report)


def test_a_share_judged_alone_is_one_sided_too() -> None:
    row = DimensionScore("keyword", "all", 30, None, None, 30, (0.886, 1.0))
    passed = Verdict.judge("keyword_fidelity", 1.0, 0.9, "min")
    report = replace(BARE, quality=Quality(ENOUGH, matrix=(row,)), verdicts=(passed,), certainty=0.95)
    assert caveats(report) == (
        "Keyword fidelity: a share below 90 % is ruled out at 95%, one-sided; the interval shown is two-sided and "
        "wider, from 88.6 %.",
    )
