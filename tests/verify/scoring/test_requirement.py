from __future__ import annotations

import pytest

from chipwise.verify.scoring.entity import USUAL
from chipwise.verify.scoring.requirement import Requirement, same_answer
from chipwise.verify.scoring.tool_call import ToolCall


def test_everything_asked_for_must_hold() -> None:
    asked = Requirement(keywords=("19:30",), absent=("turn_off",), same=USUAL)
    assert asked.misses("turn on at 7:30 pm") == ()
    assert asked.misses("turn_off at 7:30") == ("19:30", "says turn_off")


def test_the_whole_answer() -> None:
    asked = Requirement(exact="Yes")
    assert asked.misses(" yes. ") == ()
    assert asked.misses("yes, sir") == ("is not Yes",)


def test_what_only_forbids_asks_for_some_answer() -> None:
    for asked in (Requirement(absent=("motorway",)), Requirement(calls=())):
        assert asked.misses(" \n") == ("says nothing",)
        assert asked.misses("by the river") == ()


def test_calls_and_json() -> None:
    assert Requirement(calls=(ToolCall("a", {}),)).misses('{"tool":"a"}') == ()
    assert Requirement(calls=()).misses('{"tool":"a"}') != ()
    assert Requirement(json=({"a": 1},)).misses('so {"a": 1.0}') == ()
    assert Requirement(json=({"a": 1},)).misses("so") == ("no JSON",)
    assert Requirement(json=(None,)).misses("so") == ("no JSON",)


def test_what_asks_for_something() -> None:
    assert not Requirement().asks
    assert Requirement(calls=()).asks
    assert Requirement(json=(None,)).asks
    assert Requirement(absent=("x",)).asks


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ('{"a":1,"b":"x"}', 'Sure: {"b":"X","a":1.0}', True),
        ('{"a":1}', '{"a":2}', False),
        ('{"a":1}', "a is 1", False),
        ("Turn on the lamp.", "turn on the lamp", True),
        ("light-12 failed at 7:30", "At 07:30 light-12 failed", True),
        ("light-12 failed at 7:30", "At 07:31 light-12 failed", False),
        ("yes", "no", False),
        ("", "", False),
    ],
)
def test_the_same_answer_where_no_truth_is_known(one: str, other: str, same: bool) -> None:
    assert same_answer(one, other, USUAL) == same == same_answer(other, one, USUAL)
