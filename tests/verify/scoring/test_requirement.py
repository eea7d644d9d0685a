from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chipwise.verify.scoring.entity import USUAL
from chipwise.verify.scoring.json_text import json_values
from chipwise.verify.scoring.requirement import Requirement, bare, same_answer
from chipwise.verify.scoring.tool_call import ToolCall
from chipwise.verify.scoring.written import says_something


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


@pytest.mark.parametrize("answer", ["", "\u200b", "\ufeff", "\ufffd" * 20, "\x00", "...", "\u3164", "。。。", "- \n"])
def test_what_has_no_letter_and_no_digit_says_nothing(answer: str) -> None:
    for asked in (Requirement(absent=("motorway",)), Requirement(calls=())):
        assert asked.misses(answer) == ("says nothing",)


def test_an_empty_list_of_calls_says_that_there_are_none() -> None:
    assert Requirement(calls=()).misses("[]") == ()
    assert Requirement(absent=("siren",)).misses("[]") == ("says nothing",)


@pytest.mark.parametrize(
    ("exact", "answer", "same"),
    [
        ("1.5", "1:5", False),
        ("1.5", "1,5", False),
        ("1.5", "15", False),
        ("1.5", " 1.5. ", True),
        (".5", "5", False),
        ("5", "-5", False),
        ("5 MW", "5 mW", False),
        ("26", '"26"', True),
        ("a, b", "A b!", True),
        ("7:30", "7.30", False),
        ("B", "B)", True),
        ("B", "(B).", True),
        ("B", "**B**", True),
        ("B", "B+", False),
        ("B", "BC", False),
        ("A", "A*", False),
        ("5", "~5", False),
        ("5", "5%", False),
        ("good", "good :(", False),
        ("灯已打开", "灯已打开~", True),
        ("灯已打开", "灯已打开～", True),
        ("灯已打开", "“灯已打开”", True),
        ("灯已打开", "「灯已打开。」", True),
        ("灯已打开", "（灯已打开）", True),
        ("B", "<think>A</think>\nB", True),
        ("第 3 层", "第3层", True),
        ("26 °C", "26°C", True),
        ("1 5", "15", False),
        ("5 MB/s", "5 Mb/s", False),
        ("A", "<think>A</think>\nB", False),
    ],
)
def test_marks_inside_numbers_count(exact: str, answer: str, same: bool) -> None:
    assert (Requirement(exact=exact).misses(answer) == ()) == same


@given(
    st.text(st.sampled_from("0123456789.,:"), min_size=1, max_size=8),
    st.text(st.sampled_from("0123456789.,:"), max_size=8),
)
def test_numbers_are_exact_only_as_they_are_written(one: str, other: str) -> None:
    if bare(one) == bare(other):
        assert one.rstrip(".,:") == other.rstrip(".,:")


@given(st.text(max_size=30))
def test_an_answer_is_the_same_as_itself_if_it_says_anything(text: str) -> None:
    if not json_values(text):
        assert same_answer(text, text, USUAL) == says_something(text)


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
        ("\u200b", "\u200b", False),
        ("...", "...", False),
        ("turn on lamp-3", "turn off lamp-3", False),
        ("打开3号灯", "关闭3号灯", False),
        ("锁定3号门", "解锁3号门", False),
        ("打开3号灯", "不要打开3号灯", False),
        ("is 26", "is not 26", False),
        ("It is 26.", "It isn't 26.", False),
        ("Lamp 3 is up", "Lamp 3 is down", False),
        ("Yes, 26", "No, 26", False),
        ("OK, turn on lamp-3.", "Turn on the lamp-3", True),
        ("好的，打开3号灯。", "打开3号灯了", True),
        ("请打开3号灯", "打开三号灯", True),
        ("请打开33号灯", "打开三十三号灯", True),
        ("Sure, lamp-3 at 7:30 tonight", "lamp-3 at 19:30", True),
        ("lamp-3 at 7:30", "lamp-3 at 7:30 pm", False),
        ("turn on lamp-1, then lamp-2", "turn on lamp-2, then lamp-1", False),
        ("lamp-3 red, fan blue", "lamp-3 blue, fan red", False),
        ("1号灯打开2号灯关闭", "打开2号灯关闭1号灯", False),
        ("Well 3 is dry", "3 is dry", False),
        ("打开吧台3", "打开台3", False),
        ("Set 26 °C", "set 78.8 °F", True),
        ("Set 5 MW", "set 5 mW", False),
        ("Set 5", "set -5", False),
        ("call 13800138000", "call 13800138001", False),
        ("The fan is on [1]", "The fan is off [1]", False),
        ("The fan is on [1]", "the fan is on [1].", True),
        ("- [ ] door locked", "- [ ] door unlocked", False),
        ("- [ ] door locked", "- [x] door locked", False),
        ('turn on fan {"a":1}', 'turn off fan {"a":1}', False),
        ('At 7:30 {"a":1}', '{"a":1} at 7:30', True),
        ('At 7:30 {"a":1} {"a":2}', '{"a":2} at 7:30 {"a":1}', False),
        ('No: {"a":1}', '{"a":1}', False),
        ('```json\n{"a":1}\n```', '{"a":1.0}', True),
        ('<tool_call>{"a":1}</tool_call>', '{"a":1}', True),
        ('{"a":"5 min"}', '{"a":"5"}', False),
        ('{"a":1.1}', '{"a":"1.10"}', False),
        ('{"a":1', '{"a":2', False),
        ("[]", "[]", True),
        ("5 MB", "5 Mb", False),
        ("5 MB/s", "5 Mb/s", False),
        ("5 Mbps", "5 MBps", False),
        ("5 MWh", "5 mWh", False),
        ("5 mHz", "5 mPa", False),
        ("5 Minutes", "5 minutes", True),
        ("门已锁 ✅", "门已锁 ❌", False),
        ("门已锁 ✅", "门已锁 ✅。", True),
        ("left →", "left ←", False),
        ("a ≤ 5", "a ≥ 5", False),
        ("5-10", "5 10", False),
        ("about ~5", "about 5", False),
        ("v1.10", "v1.1", False),
        ("90 min", "1 h 30 min", True),
        ("两个半小时", "2.5小时", True),
        ("37度5", "37.5度", True),
        ("300 K", "300 k", False),
        ("<think>on or off?</think>fan on", "fan on", True),
        ("<think>the fan is on</think>", "<think>the fan is on</think>", False),
    ],
)
def test_the_same_answer_where_no_truth_is_known(one: str, other: str, same: bool) -> None:
    assert same_answer(one, other, USUAL) == same == same_answer(other, one, USUAL)


@pytest.mark.parametrize("part", ["\n", " ", ", ", "今晚7点", "[[1,", '{"a":[', "5 ", "a ", "7:30 ", "[1] "])
def test_long_answers_are_compared_in_time(part: str) -> None:
    text = "on" + part * (100_000 // len(part))
    began = time.perf_counter()
    assert not same_answer(f"{text}x", f"{text}y", USUAL)
    assert same_answer(text, text, USUAL)
    assert not same_answer(*(json.dumps({"a": text + end}) for end in "xy"), USUAL)
    assert Requirement(exact="on").misses(f"{text}x") != ()
    assert time.perf_counter() - began < 5


@pytest.mark.parametrize(
    ("expected", "answer", "same"),
    [
        ({"a": 1}, '{"a":1} {"a":2}', False),
        ({"a": 1}, '{"a":2} {"a":1}', False),
        ({"a": 1}, '{"a":1} or {"a":1.0}', True),
        ({"a": 1}, 'See note [1]: {"a":1}', True),
        ({"a": 1}, '[1] {"a":1}', False),
        ({"a": 1}, '{"a":1}, {"a":', False),
        ({"a": 1}, '[{"a":1}', False),
        ({"a": 1}, '{"a":true,"a":1}', False),
        ({"a": 1}, '<think>{"a":2}</think>{"a":1}', True),
        ({"a": 1}, '<think>{"a":1}</think>{"a":2}', False),
        ([1], "It is [1].", True),
        ([], "[]", True),
        (5, "5", True),
        (5, " 5.0\n", True),
        (5, "6", False),
        (5, "[5]", False),
        (5, "it is 5", False),
        (5, "```json\n5\n```", True),
        ("on", '"On"', True),
        ("5 Mb/s", '"5 MB/s"', False),
        ("on", '"off"', False),
        (True, "true", True),
        (True, "1", False),
        (1, "true", False),
        (None, "null", True),
        (None, "0", False),
        (None, "", False),
    ],
)
def test_json_of_an_answer(expected: Any, answer: str, same: bool) -> None:
    assert (Requirement(json=(expected,), same=USUAL).misses(answer) == ()) == same


def test_what_was_thought_is_no_answer() -> None:
    assert Requirement(("lamp",)).misses("<think>lamp</think>fan") == ("lamp",)
    assert Requirement(absent=("siren",)).misses("<think>no siren</think>fan") == ()
    assert Requirement(absent=("siren",)).misses("no siren</think>fan") == ()
    assert Requirement(absent=("siren",)).misses("<think>Let me") == ("says nothing",)
    assert Requirement(calls=()).misses('<think>{"tool":"a"}</think>Nothing to do.') == ()
    assert Requirement(calls=(ToolCall("a", {}),)).misses('<think>{"tool":"a"}</think>Nothing to do.') != ()
