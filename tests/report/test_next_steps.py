from __future__ import annotations

from dataclasses import replace

import pytest

from chipwise.report import Finding, Verdict
from chipwise.report.next_steps import MAX_STEPS, next_steps
from chipwise.report.quality import CaseResult, Quality
from chipwise.report.report import Report
from chipwise.report.tried import TriedRecipe
from tests.report.samples import full_report, matrix

CASE = CaseResult("a", "q", None, "yes", "no")
SCORED = Quality((CASE,), matrix=matrix(passed=False))
REPORT = Report("t", "host", "m", "w4a16", quality=SCORED)


def told(report: Report) -> str:
    return "\n".join(step.what for step in next_steps(report))


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (Verdict.judge("self_check_candidate_nats", 0.5, 0.01, "max"), "why the candidate disagrees with itself"),
        (Verdict.judge("self_check_reference_nats", float("nan"), 0.001, "max"), "why the reference disagrees"),
        (Verdict.judge("cases_nonfinite", 2, 0, "max"), "16-bit activations"),
        (Verdict.judge("cases_not_run", 2, 0, "max"), "larger --context"),
        (Verdict.judge("noise_robustness_reference", 0.1, 0.5, "min"), "Correct the suite's cases of noise robustness"),
        (Verdict.judge("kl_mean_nats", 0.5, 0.1, "max"), "--recipe w8a16"),
        (Verdict.judge("keyword_fidelity_drop", 0.12, 0.03, "max"), "queries like those of lang=zh"),
    ],
)
def test_a_gate_that_fails_says_what_to_do(verdict: Verdict, words: str) -> None:
    assert words in told(replace(REPORT, verdicts=(verdict,)))
    assert words not in told(replace(REPORT, verdicts=(replace(verdict, value=verdict.threshold, passed=True),)))


def test_a_recipe_that_passed_goes_before_one_that_was_not_tried() -> None:
    failed = Verdict.judge("kl_mean_nats", 0.5, 0.1, "max")
    wide = TriedRecipe("w8a16", 161 << 20, outcome="pass")
    wider = TriedRecipe("fp32_like", 500 << 20, outcome="pass")
    said = told(replace(REPORT, verdicts=(failed,), tried=(wider, wide)))
    assert said.startswith("Take w8a16: it passed on the same cases, at 161 MiB.")
    # And one that failed already is not named.
    lost = replace(wide, outcome="fail")
    assert "--recipe fp32" in told(replace(REPORT, verdicts=(failed,), tried=(lost,)))
    nothing = replace(REPORT, recipe="fp32", verdicts=(failed,))
    assert "--recipe" not in told(nothing)


def test_cases_that_are_missing_are_named_together() -> None:
    unsure = [
        Verdict(f"{name}_drop", 0.0, 0.03, "max", passed=True, sure=False, more_cases=n)
        for name, n in (("keyword_fidelity", 20), ("noise_robustness", 62))
    ]
    said = told(replace(REPORT, verdicts=tuple(unsure)))
    assert "Add about 62 more cases of each to the suite: keyword fidelity and noise robustness." in said
    assert "Add about 20 more cases to the suite: keyword fidelity." in told(replace(REPORT, verdicts=(unsure[0],)))


def test_remedies_of_findings_the_worst_first() -> None:
    found = [
        Finding("a", "info", "here", "1", "2", "Nothing.", "leave it"),
        Finding("b", "warning", "there", "1", "2", "The width is odd.", "pad it"),
        Finding("c", "error", "everywhere", "1", "2", "It does not fit.", "take less"),
        Finding("d", "error", "nowhere", "1", "2", "Who knows.", ""),
    ]
    steps = next_steps(replace(REPORT, findings=tuple(found)))
    assert [step.what for step in steps][:2] == ["Take less.", "Pad it."]
    assert steps[0].why == "everywhere: It does not fit."


def test_what_is_not_known() -> None:
    alone = replace(CASE, reference_answer=None)
    said = told(replace(REPORT, quality=Quality((alone,)), emulates="rk3588"))
    assert "Give --suite" in said
    assert "--reference with a bundle" in said
    assert "on a board with rk3588" in said
    assert "--reference" not in told(REPORT)


def test_a_smaller_one_where_all_is_well() -> None:
    passed = replace(REPORT, recipe="w8a16", verdicts=(Verdict.judge("kl_mean_nats", 0.01, 0.1, "max"),))
    assert told(passed) == "Try --recipe w4a16, if size or speed matter more."
    assert told(replace(passed, tried=(TriedRecipe("w4a16", outcome="fail"),))) == ""


def test_few_and_each_once() -> None:
    steps = next_steps(full_report())
    assert len(steps) <= MAX_STEPS
    assert len({step.what for step in steps}) == len(steps)
    assert steps[0].what.startswith("Take w8a16")
    assert next_steps(Report("t", "host", "m", "fp32")) == ()
