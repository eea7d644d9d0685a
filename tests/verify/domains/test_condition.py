from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chipwise.verify.domains import generate
from chipwise.verify.domains.case import ToolCall
from chipwise.verify.domains.condition import ABOVE, AT_LEAST, AT_MOST, BELOW, Condition, draw_condition
from chipwise.verify.domains.draw import Draw

WORDS = {
    "above": lambda reading, limit: reading > limit,
    "below": lambda reading, limit: reading < limit,
    "at least": lambda reading, limit: reading >= limit,
    "at most": lambda reading, limit: reading <= limit,
    "高于": lambda reading, limit: reading > limit,
    "不高于": lambda reading, limit: reading <= limit,
    "低于": lambda reading, limit: reading < limit,
    "不低于": lambda reading, limit: reading >= limit,
}


@pytest.mark.parametrize(
    ("relation", "reading", "holds"),
    [
        (ABOVE, 27, True),
        (ABOVE, 26, False),
        (BELOW, 25, True),
        (BELOW, 26, False),
        (AT_LEAST, 26, True),
        (AT_LEAST, 25, False),
        (AT_MOST, 26, True),
        (AT_MOST, 27, False),
    ],
)
def test_a_condition_at_its_border(relation, reading, holds) -> None:
    assert Condition(relation, 26, reading).holds is holds


def test_an_answer_gives_its_evidence_first() -> None:
    call = ToolCall("turn_on", {"device": "fan"})
    does = Condition(ABOVE, 26, 30).choose(call).text()
    assert does == '{"reading":30,"limit":26,"is":"more","asked":"above","tool":"turn_on","device":"fan"}'
    assert (
        Condition(ABOVE, 26, 20).choose(call).text()
        == '{"reading":20,"limit":26,"is":"less","asked":"above","tool":"none"}'
    )


@given(st.text(), st.integers(3, 8), st.integers(0, 2))
def test_a_drawn_condition_is_decided_by_its_tens(seed: str, low: int, width: int) -> None:
    condition = draw_condition(Draw(seed), 10 * low, 10 * (low + width))
    assert 10 * low <= condition.limit <= 10 * (low + width)
    assert condition.limit % 10 == 0
    assert condition.reading % 10 != 0
    assert abs(condition.reading - condition.limit) < 20


@pytest.mark.parametrize(("domain", "template"), [("home", "rule"), ("vehicle", "range"), ("camera", "count")])
def test_every_rule_case_follows_from_its_text(domain: str, template: str) -> None:
    cases = [case for case in generate(domain, 600, 3, "train") if f"-{template}" in case.id]
    assert len(cases) > 40
    outcomes = set()
    for case in cases:
        reading = int(case.messages[0]["content"].split(": ")[1])
        pattern = "(" + "|".join(sorted(WORDS, key=len, reverse=True)) + r") ?(\d+)"
        word, limit = re.search(pattern, case.messages[1]["content"]).groups()
        answer = json.loads(case.expected)
        acts = answer["tool"] != "none"
        assert answer["is"] == ("equal" if reading == int(limit) else "more" if reading > int(limit) else "less")
        assert acts is WORDS[word](reading, int(limit)), case
        outcomes.add(acts)
    assert outcomes == {True, False}
