"""The examples of docs/verification.md are read as the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from chipwise.verify.certainty.decision import decide_loss
from chipwise.verify.suite import read_suite

PAGE = (Path(__file__).parents[2] / "docs" / "verification.md").read_text("utf-8")


def block(kind: str) -> str:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)[0]


def test_the_suite_on_the_page(tmp_path: Path) -> None:
    (tmp_path / "suite.toml").write_text(block("toml"), encoding="utf-8")
    (tmp_path / "cases.jsonl").write_text(block("json"), encoding="utf-8")
    suite = read_suite(tmp_path)
    assert suite.name == "living room"
    assert suite.gate == {"keyword_fidelity_drop": 0.02}
    cases = {case.id: case for case in suite.cases}
    assert [case.dimension for case in cases.values()] == ["keyword", "logic", "long_range", "noise"]
    assert cases["k1"].misses("bedroom: 22.5 C at 19:30") == ()
    assert cases["n1"].misses("bedroom: 22.5 C at 7:30") == ("19:30",)
    assert cases["l1"].misses('{"tool":"turn_on","device":"fan","reason":"31 > 26"}') == ()
    assert cases["r1"].misses("PUMP-204, C521") == ()


@pytest.mark.parametrize("points", [3, 2, 1])
def test_the_numbers_of_cases_on_the_page(points: int) -> None:
    found = re.search(rf"{points} points? (?:is ruled out\nfrom |from )(\d+)", PAGE)
    assert found
    enough = int(found[1])
    sure = [decide_loss(0, 0, n, points / 100, 0.05, fail_alpha=0.05).sure for n in (enough - 1, enough)]
    assert sure == [False, True]
