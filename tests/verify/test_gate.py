from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chipwise.errors import InputError
from chipwise.report.quality import CaseResult, DriftSummary, Fidelity, Quality, SelfCheck
from chipwise.verify.gate import Thresholds, judge, parse_overrides

GOOD = DriftSummary(100, 0.01, 0.001, 0.05, 0.2, 0.98, 1.2, 1.21, 0, 0)
CASE = CaseResult("a", "q", None, "x", "x")
NAN = float("nan")


def quality(
    *, answer: DriftSummary | None = GOOD, fidelity: tuple[Fidelity, ...] = (), cases: tuple[CaseResult, ...] = (CASE,)
) -> Quality:
    checks = (SelfCheck("reference", 9, 1e-8, 1e-7, 1.0), SelfCheck("candidate", 9, 1e-4, 1e-3, 1.0))
    return Quality(cases, fidelity, answer, answer, self_checks=checks)


def failed(found: Quality, thresholds: Thresholds | None = None) -> list[str]:
    return [verdict.metric for verdict in judge(found, thresholds or Thresholds()) if not verdict.passed]


def test_a_good_candidate_passes_every_metric() -> None:
    verdicts = judge(quality(fidelity=(Fidelity("all", 100, 0.97, 0.95, 3, 1),)), Thresholds())
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


def test_exactly_the_drop_allowed_passes() -> None:
    # 0.97 - 0.94 is 0.030000000000000027.
    assert failed(quality(fidelity=(Fidelity("all", 100, 0.97, 0.94, 4, 1),))) == []
    assert failed(quality(fidelity=(Fidelity("all", 100, 0.97, 0.93, 5, 1),))) == ["keyword_fidelity_drop"]


def test_a_suite_that_the_reference_fails_says_nothing() -> None:
    weak = quality(fidelity=(Fidelity("all", 100, 0.2, 0.2),))
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
    assert failed(quality(answer=None, fidelity=(Fidelity("all", 10, None, 0.9),))) == []
    assert failed(quality(answer=None, fidelity=(Fidelity("all", 10, None, 0.8),))) == ["keyword_fidelity"]


def test_only_all_cases_together_are_judged() -> None:
    shares = (Fidelity("all", 100, 0.9, 0.9), Fidelity("lang=zh", 3, 1.0, 0.0, 3))
    assert failed(quality(fidelity=shares)) == []


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
