from __future__ import annotations

from dataclasses import replace

import pytest

from chipwise.report import Verdict
from chipwise.report.quality import CaseResult, DimensionScore, Quality
from chipwise.report.report import Report
from chipwise.report.summary import summarise_report
from chipwise.report.tried import TriedRecipe
from tests.report.samples import full_report

EMPTY = Report("t", "host", "m", "fp32")
HOLDS = Verdict.judge("top1_agreement", 0.95, 0.9, "min")
BROKE = Verdict.judge("keyword_fidelity_drop", 0.12, 0.03, "max")
UNSURE = Verdict("noise_robustness_drop", 0.0, 0.03, "max", passed=True, sure=False, more_cases=68)
SUITE = Verdict.judge("long_range_recall_reference", 0.0, 0.5, "min")
CASE = CaseResult("a", "q", None, "yes", "no")
ROW = DimensionScore("keyword", "all", 40, 40, (0.9, 1), 40, (0.9, 1), 0, 0, (-0.08, 0.081))


def said(report: Report, question: str) -> str:
    found = [f"{a.answer}. {a.detail}" for a in summarise_report(report).answers if a.question == question]
    return found[0] if found else ""


@pytest.mark.parametrize(
    ("verdicts", "quality", "emulates", "word", "tone"),
    [
        ((HOLDS,), Quality((CASE,), matrix=(ROW,)), None, "Ship it", "pass"),
        ((HOLDS,), Quality((CASE,)), None, "Holds, your task untested", "pass"),
        ((HOLDS,), Quality((CASE,), matrix=(ROW,)), "rk3588", "Holds in emulation", "pass"),
        ((HOLDS, UNSURE), Quality((CASE,), matrix=(ROW,)), None, "Not sure yet", "none"),
        ((HOLDS, SUITE), Quality((CASE,), matrix=(ROW,)), None, "The suite cannot tell", "none"),
        ((SUITE, BROKE), Quality((CASE,), matrix=(ROW,)), None, "Do not ship it", "fail"),
        ((HOLDS, BROKE, UNSURE), Quality((CASE,), matrix=(ROW,)), "rk3588", "Do not ship it", "fail"),
        ((), None, None, "Not judged", "none"),
    ],
)
def test_ship_it_or_not(
    verdicts: tuple[Verdict, ...], quality: Quality | None, emulates: str | None, word: str, tone: str
) -> None:
    found = summarise_report(replace(EMPTY, verdicts=verdicts, quality=quality, emulates=emulates))
    assert (found.word, found.tone) == (word, tone)


def test_how_sure() -> None:
    ran = Quality((CASE,) * 40, matrix=(ROW,))
    asked = "How sure?"
    holds = said(replace(EMPTY, verdicts=(HOLDS,), quality=ran), asked)
    assert holds == (
        "95 %. A loss of more than 8.1 points in any dimension is ruled out (the widest: keyword fidelity); "
        "40 cases ran."
    )
    alone = replace(ran, matrix=(replace(ROW, reference=None, reference_share=None, loss=None),))
    assert "At least 90 % right in every dimension" in said(replace(EMPTY, verdicts=(HOLDS,), quality=alone), asked)
    unsure = said(replace(EMPTY, verdicts=(UNSURE,), quality=ran), asked)
    assert unsure.startswith("Not yet. Too few cases of noise robustness: about 68 more cases of each would do")
    assert "chance is ruled out" in said(replace(EMPTY, verdicts=(BROKE,), quality=ran), asked)
    assert said(replace(EMPTY, verdicts=(SUITE,), quality=ran), asked).startswith("Not at all. ")
    drift = Verdict.judge("kl_mean_nats", 0.3, 0.1, "max")
    both = said(replace(EMPTY, verdicts=(drift, SUITE), quality=ran), asked)
    assert both == "As measured. KL divergence 0.300 nats, and 1 more, over all that was compared; 40 cases ran."
    assert said(EMPTY, asked) == "Nothing was held against a limit. No case ran."
    assert "12 samples ran" in said(replace(EMPTY, verdicts=(HOLDS,), samples=12), asked)


def test_what_broke() -> None:
    asked = "What broke?"
    assert said(full_report(), asked) == (
        "19 answers. Right before and wrong now (keyword fidelity 13, noise robustness 3, long-range recall 2, "
        "logical consistency 1); 5 went the other way; 3 changed their words."
    )
    sound = Quality((replace(CASE, candidate_answer="yes"),), matrix=(ROW,))
    assert said(replace(EMPTY, quality=sound), asked).startswith("Nothing. No answer that was right became wrong; no")
    alone = replace(ROW, reference=None, reference_share=None, loss=None, candidate=38)
    assert said(replace(EMPTY, quality=Quality((CASE,), matrix=(alone,))), asked).startswith("2 wrong. Of 40 scored (")
    assert said(replace(EMPTY, quality=Quality((CASE,))), asked).startswith("Unknown. ")
    report = full_report()
    assert report.quality is not None
    drift = replace(report, quality=replace(report.quality, matrix=()))
    assert said(drift, asked).startswith("3 answers changed. Of 3;")
    assert said(EMPTY, asked) == ""


def test_what_is_gained() -> None:
    asked = "What is gained?"
    assert said(full_report(), asked) == (
        "5.7× smaller. 90.6 MiB instead of 513 MiB; 61.3 tokens a second instead of 24.1 (2.54×), 16 ms each."
    )
    alone = (TriedRecipe("w4a16", 1 << 20, 61.3, kept=True),)
    assert said(replace(EMPTY, tried=alone), asked) == "1 MiB. 1 MiB; 61.3 tokens a second, 16 ms each."
    fast = (TriedRecipe("w4a16", None, 2.0, kept=True),)
    assert said(replace(EMPTY, tried=fast), asked) == "2 tokens a second, 500 ms each. "
    assert said(EMPTY, asked) == ""


def test_what_is_gained_is_no_gain_where_there_is_none() -> None:
    ours = TriedRecipe("w8a8", 500, 10.0, 50.0, kept=True, decode_spread_tokens_per_s=2.0)
    theirs = TriedRecipe("fp32", 100, 9.0, 50.0, reference=True, decode_spread_tokens_per_s=1.5)
    found = said(replace(EMPTY, tried=(theirs, ours)), "What is gained?")
    assert found.startswith("Nothing: 5.0× as large. ")
    assert "10 ± 2 tokens a second instead of 9 ± 1.5 (no difference beyond the spread of the runs)" in found
    earlier = replace(theirs, timed_earlier=True)
    assert "(measured in an earlier run)" in said(replace(EMPTY, tried=(earlier, ours)), "What is gained?")
    faster = replace(ours, size_bytes=100, decode_tokens_per_s=18.0)
    found = said(replace(EMPTY, tried=(theirs, faster)), "What is gained?")
    assert found.startswith("Nothing in size. ")
    assert "(2.00×)" in found
