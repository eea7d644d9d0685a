from __future__ import annotations

import json
import math
from dataclasses import fields, replace

import pytest

from chipwise.errors import InputError
from chipwise.report import Verdict
from chipwise.report.quality import CaseResult, DriftSummary, Quality
from chipwise.report.report import SCHEMA_VERSION, LayerCosine, Report
from tests.report.samples import full_report

EMPTY = Report("t", "host", "m", "fp32")


@pytest.mark.parametrize("report", [full_report(), full_report(passed=True), EMPTY])
def test_what_is_written_is_read_back(report: Report) -> None:
    assert Report.from_json(report.to_json(), where="report.json") == report


def test_text_keeps_its_characters() -> None:
    assert "电机过热" in full_report().to_json().decode("utf-8")


def test_values_that_are_no_numbers_survive_and_stay_valid_json() -> None:
    nan, inf = math.nan, math.inf
    report = replace(
        EMPTY,
        verdicts=(Verdict.judge("kl_mean_nats", nan, 0.1, "max"),),
        layers=(LayerCosine("x", nan, -inf, 1.0, 0),),
        quality=Quality((), answer=DriftSummary(1, nan, nan, nan, inf, 0, nan, nan, 0, 1)),
    )

    def refuse(constant: str) -> float:
        raise AssertionError(constant)

    json.loads(report.to_json(), parse_constant=refuse)
    again = Report.from_json(report.to_json(), where="r")
    assert math.isnan(again.verdicts[0].value)
    assert not again.verdicts[0].passed
    assert again.layers[0].min == -inf
    assert again.quality is not None
    assert again.quality.answer is not None
    assert again.quality.answer.kl_max_nats == inf


def test_the_order_of_fields_is_that_of_the_class() -> None:
    assert list(json.loads(full_report().to_json())) == [field.name for field in fields(Report)]
    assert full_report().to_json() == full_report().to_json()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a report"),
        (b"{}", "not a report: title"),
        (b"[]", "not a report"),
        (b"\xff\xfe", "not a report"),
        (EMPTY.to_json().replace(b'"fp32"', b"[]"), "not a report: recipe"),
        (EMPTY.to_json().replace(b'"schema_version": 1', b'"schema_version": 99'), "schema 99"),
    ],
)
def test_what_is_no_report_is_one_line(data: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        Report.from_json(data, where="out/report.json")
    assert str(caught.value).startswith("out/report.json: ")
    assert "\n" not in str(caught.value)


def test_outcome() -> None:
    good, bad = Verdict.judge("a", 1, 0, "min"), Verdict.judge("b", 1, 0, "max")
    assert EMPTY.outcome == "not judged"
    assert replace(EMPTY, verdicts=(good,)).outcome == "pass"
    assert replace(EMPTY, verdicts=(good, bad)).outcome == "fail"
    assert EMPTY.schema_version == SCHEMA_VERSION


def test_worst_cases_rank() -> None:
    def case(name: str, kl: float | None, lacks: tuple[str, ...] | None, *, right: bool = True) -> CaseResult:
        return CaseResult(name, "", None, "x", "y", () if right else ("k",), lacks, kl, None, finite=name != "nan")

    cases = [
        case("drifted", 0.5, ()),
        case("wrong on both", 0.9, ("k",), right=False),
        case("drifted more", 0.7, ()),
        case("broke a little", 0.1, ("k",)),
        case("broke", 0.2, ("k",)),
        case("nan", math.nan, ()),
        CaseResult("right", "", None, "x", "x", (), (), 3.0),
    ]
    found = [case.id for case in Quality(tuple(cases)).worst(9)]
    assert found == ["nan", "broke", "broke a little", "wrong on both", "drifted more", "drifted"]


def test_defaults_name_what_ran() -> None:
    assert {"python", "system", "numpy"} <= set(EMPTY.versions)
    assert EMPTY.created.endswith("+00:00")
