from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chipwise.errors import InputError
from chipwise.report.quality import CaseResult, DimensionScore, DriftSummary, Quality, SelfCheck
from chipwise.verify.gate import judge
from chipwise.verify.thresholds import Thresholds, parse_overrides

GOOD = DriftSummary(100, 0.01, 0.001, 0.05, 0.2, 0.98, 1.2, 1.21, 0, 0)
CASE = CaseResult("a", "q", None, "x", "x")
NAN = float("nan")


def quality(
    *,
    answer: DriftSummary | None = GOOD,
    matrix: tuple[DimensionScore, ...] = (),
    cases: tuple[CaseResult, ...] = (CASE,),
) -> Quality:
    checks = (SelfCheck("reference", 9, 1e-8, 1e-7, 1.0), SelfCheck("candidate", 9, 1e-4, 1e-3, 1.0))
    return Quality(cases, (), answer, answer, self_checks=checks, matrix=matrix)


def failed(found: Quality, thresholds: Thresholds | None = None) -> list[str]:
    return [verdict.metric for verdict in judge(found, thresholds or Thresholds()) if not verdict.passed]


def test_a_good_candidate_passes_every_metric() -> None:
    verdicts = judge(quality(matrix=(row(100, 97, 95, 3, 1),)), Thresholds())
    assert [verdict.metric for verdict in verdicts] == [
        "kl_mean_nats",
        "top1_agreement",
        "perplexity_ratio",
        "keyword_fidelity_drop",
        "keyword_fidelity_reference",
        "self_check_reference_nats",
        "self_check_candidate_nats",
        "cases_nonfinite",
        "cases_not_run",
    ]
    assert all(verdict.passed for verdict in verdicts)


@pytest.mark.parametrize(
    ("answer", "metric"),
    [
        (DriftSummary(100, 0.11, 0, 0, 0, 0.98, 1.2, 1.21, 0, 0), "kl_mean_nats"),
        (DriftSummary(100, 0.01, 0, 0, 0, 0.89, 1.2, 1.21, 0, 0), "top1_agreement"),
        (DriftSummary(100, 0.01, 0, 0, 0, 0.98, 1.2, 1.4, 0, 0), "perplexity_ratio"),
        (DriftSummary(100, NAN, 0, 0, 0, 0.98, 1.2, 1.2, 0, 0), "kl_mean_nats"),
        (DriftSummary(100, 0.01, 0, 0, 0, NAN, 1.2, 1.2, 0, 0), "top1_agreement"),
        (DriftSummary(100, 0.01, 0, 0, 0, 0.98, math.inf, math.inf, 0, 0), "perplexity_ratio"),
    ],
)
def test_each_metric_of_drift_can_fail(answer: DriftSummary, metric: str) -> None:
    assert failed(quality(answer=answer)) == [metric]


def row(
    scored: int, reference: int | None, candidate: int, broke: int = 0, fixed: int = 0, *,
    dimension: str = "keyword", label: str = "all",
) -> DimensionScore:  # fmt: skip
    return DimensionScore(dimension, label, scored, reference, None, candidate, (0.0, 1.0), broke, fixed)


def outcomes(found: Quality, thresholds: Thresholds | None = None, *, tried: int = 1) -> dict[str, str]:
    return {v.metric: v.outcome for v in judge(found, thresholds or Thresholds(), tried=tried)}


def test_exactly_the_drop_allowed_passes() -> None:
    # 0.97 - 0.94 is 0.030000000000000027.
    assert failed(quality(matrix=(row(100, 97, 94, 4, 1),))) == []
    assert failed(quality(matrix=(row(100, 97, 93, 5, 1),))) == ["keyword_fidelity_drop"]


def test_a_suite_that_the_reference_fails_says_nothing() -> None:
    weak = quality(matrix=(row(100, 20, 20),))
    assert failed(weak) == ["keyword_fidelity_reference"]
    assert failed(weak, Thresholds(keyword_fidelity_reference=0)) == []


def test_texts_of_a_command_line() -> None:
    assert parse_overrides(["kl_mean_nats=0.2", " top1_agreement = 1e-1"]) == {
        "kl_mean_nats": 0.2,
        "top1_agreement": 0.1,
    }
    for text in ("kl_mean_nats", "=", "kl_mean_nats=x", ""):
        with pytest.raises(InputError, match="is not NAME=VALUE"):
            parse_overrides([text])


def test_without_a_reference_the_share_itself_is_judged() -> None:
    assert failed(quality(answer=None, matrix=(row(10, None, 9),))) == []
    assert failed(quality(answer=None, matrix=(row(10, None, 8),))) == ["keyword_fidelity"]


def test_only_all_cases_of_a_dimension_together_are_judged() -> None:
    rows = (row(100, 90, 90), row(3, 3, 0, 3, label="lang=zh"))
    assert failed(quality(matrix=rows)) == []


@pytest.mark.parametrize(
    ("dimension", "metric"),
    [
        ("keyword", "keyword_fidelity"),
        ("logic", "logical_consistency"),
        ("long_range", "long_range_recall"),
        ("noise", "noise_robustness"),
    ],
)
def test_each_dimension_has_a_gate_of_its_own(dimension: str, metric: str) -> None:
    lost = row(200, 180, 160, 20, dimension=dimension)
    assert outcomes(quality(matrix=(lost,)))[f"{metric}_drop"] == "fail"
    assert outcomes(quality(matrix=(lost,)), Thresholds(**{f"{metric}_drop": 0.2}))[f"{metric}_drop"] == "pass"
    alone = row(200, None, 160, dimension=dimension)
    assert outcomes(quality(matrix=(alone,)))[metric] == "fail"
    assert outcomes(quality(matrix=(alone,)), Thresholds(**{metric: 0.7}))[metric] == "pass"


def test_few_cases_are_not_enough_to_tell() -> None:
    verdicts = judge(quality(matrix=(row(20, 20, 20),)), Thresholds())
    found = next(v for v in verdicts if v.metric == "keyword_fidelity_drop")
    assert (found.outcome, found.passed, found.more_cases) == ("unclear", True, 68)
    assert found.line() == ("UNCLEAR keyword_fidelity_drop 0 (needs <= 0.03; not enough cases to tell: about 68 more)")
    assert outcomes(quality(matrix=(row(20, 20, 20),)), Thresholds(certainty=0))["keyword_fidelity_drop"] == "pass"
    assert outcomes(quality(matrix=(row(100, 100, 100),)))["keyword_fidelity_drop"] == "pass"


def test_the_more_candidates_are_tried_the_surer_each_must_be() -> None:
    found = quality(matrix=(row(100, 100, 100),))
    assert outcomes(found, tried=1)["keyword_fidelity_drop"] == "pass"
    assert outcomes(found, tried=3)["keyword_fidelity_drop"] == "unclear"
    assert outcomes(found, Thresholds(certainty=0), tried=3)["keyword_fidelity_drop"] == "pass"


def test_one_of_several_dimensions_must_be_surely_worse_to_fail() -> None:
    # Four that broke and none fixed: one-sided mid-p 1/32, enough for one dimension and not for the worst of four.
    worst = row(100, 100, 96, 4)
    others = tuple(row(300, 300, 300, dimension=name) for name in ("logic", "long_range", "noise"))
    assert outcomes(quality(matrix=(worst,)))["keyword_fidelity_drop"] == "fail"
    assert outcomes(quality(matrix=(worst, *others)))["keyword_fidelity_drop"] == "unclear"


def test_nothing_that_ran_does_not_pass() -> None:
    assert failed(Quality(())) == ["cases_run"]
    assert "kl_mean_nats" in failed(quality(answer=DriftSummary(0, NAN, NAN, NAN, NAN, NAN, NAN, NAN, 0, 0)))


def test_nan_cases_and_cases_left_out_fail() -> None:
    broken = CaseResult("b", "q", None, "x", "y", finite=False)
    assert failed(quality(cases=(CASE, broken))) == ["cases_nonfinite"]
    assert failed(Quality((CASE,), not_run=("c",))) == ["cases_not_run"]
    assert failed(Quality((CASE,), not_run=("c",)), Thresholds(cases_not_run=1)) == []


@pytest.mark.parametrize(("session", "kl"), [("reference", 0.01), ("candidate", 0.1), ("reference", NAN)])
def test_a_session_that_disagrees_with_itself_fails(session: str, kl: float) -> None:
    found = Quality((CASE,), self_checks=(SelfCheck(session, 9, kl, kl, 0.9),))
    assert failed(found) == [f"self_check_{session}_nats"]


def test_wider_weights_are_held_to_more() -> None:
    four, eight, sixteen = (Thresholds.for_weight_bits(bits) for bits in (4, 8, 16))
    assert four == Thresholds()
    assert Thresholds.for_weight_bits(32) == sixteen
    for loose, strict in ((four, eight), (eight, sixteen)):
        assert strict.kl_mean_nats < loose.kl_mean_nats
        assert strict.top1_agreement > loose.top1_agreement
        assert strict.perplexity_ratio < loose.perplexity_ratio
        assert strict.keyword_fidelity_drop < loose.keyword_fidelity_drop


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("kl_mean_nats", -1.0, "not a number from 0 on"),
        ("kl_mean_nats", float("inf"), "not a number from 0 on"),
        ("kl_mean_nats", float("nan"), "not a number from 0 on"),
        ("top1_agreement", 5.0, "above 1"),
        ("keyword_fidelity", 1.01, "above 1"),
        ("noise_robustness_drop", 1.01, "above 1"),
        ("certainty", 1.0, "no number of cases"),
    ],
)
def test_a_threshold_that_nothing_can_meet_is_refused(name: str, value: float, said: str) -> None:
    with pytest.raises(InputError, match=said):
        Thresholds().with_overrides({name: value})


def test_overrides() -> None:
    changed = Thresholds().with_overrides({"kl_mean_nats": 0.5})
    assert changed.kl_mean_nats == 0.5
    assert changed.top1_agreement == Thresholds().top1_agreement
    assert changed.to_dict()["kl_mean_nats"] == 0.5
    with pytest.raises(InputError, match="no threshold named 'kl'; there are kl_mean_nats, "):
        Thresholds().with_overrides({"kl": 0.5})
    with pytest.raises(InputError, match="not a number"):
        Thresholds().with_overrides({"kl_mean_nats": NAN})


@given(st.floats(0, 1), st.floats(0, 1))
def test_a_verdict_is_a_comparison(value: float, limit: float) -> None:
    answer = DriftSummary(100, value, 0, 0, 0, 0.98, 1.2, 1.2, 0, 0)
    verdict = judge(quality(answer=answer), Thresholds(kl_mean_nats=limit))[0]
    assert verdict.passed == (value <= limit)


def test_the_page_says_what_the_code_does() -> None:
    page = (Path(__file__).parents[2] / "docs" / "verification.md").read_text("utf-8")
    rows = re.findall(r"^\| (`[^|]+`) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|", page, re.MULTILINE)
    shown = {name: values for names, *values in rows for name in re.findall("`([a-z0-9_]+)`", names)}
    assert set(shown) == set(Thresholds().to_dict())
    for bits, column in ((4, 0), (8, 1), (16, 2)):
        written = {name: float(values[column]) for name, values in shown.items()}
        assert written == Thresholds.for_weight_bits(bits).to_dict()
