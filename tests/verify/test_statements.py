from __future__ import annotations

from dataclasses import replace

import pytest

from chipwise.report import Measurement
from chipwise.report.quality import CaseResult, DimensionScore, Quality
from chipwise.report.side_by_side import Side
from chipwise.verify.certainty.mcnemar import mcnemar
from chipwise.verify.certainty.paired import loss_interval
from chipwise.verify.statements import statements
from tests.report.samples import summary

CASE = CaseResult("a", "q", None, "yes", "no", (), ())


def speed(value: float, hardware: str = "a board", spread: float = 0.1) -> Measurement:
    return Measurement("decode", value, "tok/s", 4, spread, "measured", hardware)


def side(size_bytes: int = 2 << 20, decode: Measurement | None = None, prefill: Measurement | None = None) -> Side:
    return Side("m", "host", "onnxruntime", size_bytes, decode, prefill, "0.1.0", "2026-01-01T00:00:00+00:00")


def row(dimension: str, broke: int, fixed: int, n: int = 100) -> DimensionScore:
    loss, p = loss_interval(broke, fixed, n), mcnemar(broke, fixed, mid=True)
    return DimensionScore(dimension, "all", n, 90, (0.8, 1), 90, (0.8, 1), broke, fixed, loss, p)


def said(*rows: DimensionScore) -> list[tuple[str, str]]:
    found = statements(Quality((CASE,), matrix=rows), side(), side())
    return [(one.kind, one.text) for one in found]


def test_worse_better_and_no_difference_shown() -> None:
    kinds = said(row("keyword", 12, 1), row("logic", 0, 9), row("noise", 3, 2))
    assert kinds[0] == ("worse", "B is worse on keyword fidelity by 11 points (4.8 to 19, p = 0.0055), of 100 cases")
    assert kinds[1][0] == "better"
    assert kinds[1][1].startswith("B is better on logical consistency by 9 points (")
    assert kinds[2][0] == "even"
    assert kinds[2][1].startswith("no difference shown in noise robustness: -4.")


def test_one_of_many_must_be_surer() -> None:
    # p = 0.031 alone; as the least of four it is 0.125.
    lost = row("keyword", 5, 0)
    assert lost.flips_p == pytest.approx(0.03125)
    assert said(lost)[0][0] == "worse"
    assert said(lost, *(row(name, 0, 0) for name in ("logic", "long_range", "noise")))[0][0] == "even"


def test_one_point_is_no_points() -> None:
    assert " by 1 point (" in said(row("keyword", 10, 0, 1000))[0][1]


def test_unscored_cases_and_none() -> None:
    assert said()[0] == ("even", "no case says what is right, so neither can be called better")
    assert said()[1] == ("even", "1 of 1 answers are other texts")
    assert [one.kind for one in statements(None, side(), side())] == ["even"]


def test_drift_of_cases_that_ran_together() -> None:
    quality = Quality((CASE,), answer=summary(100, 0.03))
    texts = [one.text for one in statements(quality, side(), side())]
    assert "B would choose A's next token at 94 % of places, 0.0300 nats away on average" in texts


def test_size_and_speed() -> None:
    slow, fast = side(4 << 20, speed(10), speed(100)), side(2 << 20, speed(30), speed(50))
    assert [(one.kind, one.text) for one in statements(None, slow, fast)] == [
        ("better", "B is 2.00× smaller: 2 MiB, A 4 MiB"),
        ("better", "B answers 3.00× as fast: 30 ± 0.10 tok/s, A 10 ± 0.10"),
        ("worse", "B reads prompts 0.50× as fast: 50 ± 0.10 tok/s, A 100 ± 0.10"),
    ]
    assert [one.kind for one in statements(None, fast, slow)] == ["worse", "worse", "better"]
    noisy = replace(fast, decode=speed(30, spread=25.0), prefill=None)
    even = "B answers as fast within the spread of the runs: 30 ± 25 tok/s, A 10 ± 0.10"
    assert statements(None, slow, noisy)[1].text == even
    apart = statements(None, slow, fast, timed_together=False)[1]
    assert apart.kind == "even"
    assert apart.text.endswith("each measured in a run of its own: no comparison")
    elsewhere = replace(fast, decode=speed(30, "another"), prefill=speed(50, "another"))
    assert len(statements(None, slow, elsewhere)) == 1
    assert statements(None, slow, slow)[0].text == "both are of one size: 4 MiB, A 4 MiB"
