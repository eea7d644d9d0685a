from __future__ import annotations

import json
from typing import Literal

import pytest

from chipwise.report import Verdict


@pytest.mark.parametrize(
    ("value", "direction", "passed"),
    [
        (0.94, "min", False),
        (0.95, "min", True),
        (0.96, "min", True),
        (0.94, "max", True),
        (0.95, "max", True),
        (0.96, "max", False),
        (float("nan"), "min", False),
        (float("nan"), "max", False),
        (float("inf"), "max", False),
    ],
)
def test_judge(value: float, direction: Literal["min", "max"], passed: bool) -> None:
    assert Verdict.judge("m", value, 0.95, direction).passed is passed


def test_fields_come_back() -> None:
    verdict = Verdict.judge("top1_agreement", 0.97, 0.95, "min")
    assert Verdict(**json.loads(json.dumps(verdict.to_dict()))) == verdict


@pytest.mark.parametrize(
    ("value", "direction", "text"),
    [(0.971234, "min", "pass m 0.9712 (needs >= 0.95)"), (0.971234, "max", "FAIL m 0.9712 (needs <= 0.95)")],
)
def test_line(value: float, direction: Literal["min", "max"], text: str) -> None:
    assert Verdict.judge("m", value, 0.95, direction).line() == text


@pytest.mark.parametrize(("value", "text"), [(0, "pass m 0 (must be 0)"), (2, "FAIL m 2 (must be 0)")])
def test_what_must_not_happen_at_all_is_said_so(value: float, text: str) -> None:
    assert Verdict.judge("m", value, 0, "max").line() == text
