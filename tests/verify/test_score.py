from __future__ import annotations

import math

import numpy as np
import pytest

from chipwise.model.queries import Query
from chipwise.verify.case import Case
from chipwise.verify.compare import CaseComparison, Comparison
from chipwise.verify.generate import Answer
from chipwise.verify.metrics import PositionDrift
from chipwise.verify.score import answer_text, score_answers, score_comparison
from chipwise.verify.scoring.requirement import Requirement
from tests.verify.fakes import EOS
from tests.verify.words import word_tokenizer

TOKENIZER = word_tokenizer()


def positions(*kl: float) -> PositionDrift:
    values = np.array(kl)
    finite = np.isfinite(values)
    nll = np.where(finite, 1.0, np.nan)
    return PositionDrift(values, finite & (values < 1), nll, nll, np.ones(len(kl), bool), finite)


def compared(index: int, reference: tuple[int, ...], candidate: tuple[int, ...], *kl: float) -> CaseComparison:
    return CaseComparison(index, Answer(reference), Answer(candidate), positions(0.0), positions(*kl))


def case(name: str, *keywords: str, **labels: str) -> Case:
    asked = {"requirement": Requirement(keywords), "dimension": "keyword"} if keywords else {}
    return Case(name, Query(prompt=f"ask {name}"), labels=labels, **asked)


CASES = [
    case("same", "w5", lang="en"),
    case("broke", "w5", "w6", lang="en"),
    case("fixed", "w7", lang="zh"),
    case("unscored", lang="zh"),
    case("long", "w9"),
]
COMPARISON = Comparison(
    (
        compared(0, (5, EOS), (5, EOS), 0.0, 0.0),
        compared(1, (5, 6, EOS), (5, 8, EOS), 0.1, 2.0, 0.0),
        compared(2, (8,), (7,), 1.5),
        compared(3, (9, 9), (9, 10), 0.0, 0.4),
    ),
    (4,),
    (),
)


def test_keyword_fidelity_by_label() -> None:
    quality = score_comparison(CASES, COMPARISON, TOKENIZER)
    found = {share.label: share for share in quality.fidelity}
    assert list(found) == ["all", "lang=en", "lang=zh"]
    assert (found["all"].scored, found["all"].broke, found["all"].fixed) == (3, 1, 1)
    assert found["all"].reference == pytest.approx(2 / 3)
    assert found["all"].candidate == pytest.approx(2 / 3)
    assert found["all"].drop == 0
    assert (found["lang=en"].reference, found["lang=en"].candidate, found["lang=en"].drop) == (1.0, 0.5, 0.5)
    assert (found["lang=zh"].reference, found["lang=zh"].candidate, found["lang=zh"].drop) == (0.0, 1.0, -1.0)


def test_cases_in_words() -> None:
    same, broke, fixed, unscored = score_comparison(CASES, COMPARISON, TOKENIZER).cases
    assert (same.reference_answer, same.candidate_answer) == ("w5", "w5")
    assert (same.changed, same.broke) == (False, False)
    assert (broke.missing_reference, broke.missing_candidate) == ((), ("w6",))
    assert broke.broke
    assert broke.kl_mean_nats == pytest.approx(0.7)
    assert broke.top1_agreement == pytest.approx(2 / 3)
    assert (fixed.missing_reference, fixed.missing_candidate, fixed.broke) == (("w7",), (), False)
    assert (unscored.missing_reference, unscored.missing_candidate) == (None, None)
    assert unscored.changed
    assert unscored.prompt == "ask unscored"


def test_totals() -> None:
    quality = score_comparison(CASES, COMPARISON, TOKENIZER)
    assert quality.answer is not None
    assert quality.prompt is not None
    assert quality.answer.positions == 8
    assert quality.prompt.positions == 4
    low, high = quality.answer.kl_mean_interval or (0.0, 0.0)
    assert quality.answer.kl_mean_nats == pytest.approx(0.5)
    assert 0 <= low < quality.answer.kl_mean_nats < high
    assert quality.answers_changed == 3
    assert quality.not_run == ("long",)
    assert [case.id for case in quality.worst(10)] == ["broke", "fixed", "unscored"]
    assert [case.id for case in quality.worst(1)] == ["broke"]


@pytest.mark.parametrize("finite_answer", [True, False])
def test_a_nan_marks_its_case_and_leads_the_worst(finite_answer: bool) -> None:
    broken = CaseComparison(
        0, Answer((5,)), Answer((5,), finite=finite_answer), positions(0.0), positions(math.nan if finite_answer else 0)
    )
    quality = score_comparison(CASES, Comparison((broken, *COMPARISON.cases[1:]), (), ()), TOKENIZER)
    assert quality.cases_nonfinite == 1
    assert [case.finite for case in quality.cases] == [False, True, True, True]
    assert quality.worst(2)[0].id == "same"
    assert math.isnan(quality.cases[0].kl_mean_nats or 0) == finite_answer


def test_the_candidate_alone() -> None:
    answers = [Answer((5, EOS)), Answer((5,)), Answer((7, EOS)), Answer((9,), finite=False)]
    quality = score_answers(CASES[:4], answers, TOKENIZER, not_run=["long"])
    assert quality.answer is None
    assert quality.fidelity[0].reference is None
    assert quality.fidelity[0].candidate == pytest.approx(2 / 3)
    assert math.isnan(quality.fidelity[0].drop)
    assert quality.answers_changed == 0
    assert quality.cases_nonfinite == 1
    assert quality.not_run == ("long",)
    assert [case.id for case in quality.worst(5)] == ["unscored", "broke"]


def test_no_keywords_no_fidelity() -> None:
    assert score_answers([case("a")], [Answer((5,))], TOKENIZER).fidelity == ()


def test_nothing_ran() -> None:
    quality = score_comparison(CASES, Comparison((), (0, 1), ()), TOKENIZER)
    assert quality.cases == ()
    assert quality.not_run == ("same", "broke")
    assert quality.answer is not None
    assert math.isnan(quality.answer.kl_mean_nats)
    assert quality.answer.kl_mean_interval is None


def test_the_text_of_an_answer_ends_before_its_end_token_only() -> None:
    assert answer_text(Answer((5, 6, EOS)), TOKENIZER) == "w5 w6"
    assert answer_text(Answer((5, EOS, 6)), TOKENIZER) == "w5 w2 w6"
    assert answer_text(Answer((EOS,)), TOKENIZER) == ""
