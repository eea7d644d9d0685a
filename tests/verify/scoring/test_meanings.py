"""What an answer says and does not say, as a table: wanted, answer, and whether it is right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chipwise.verify.keywords import entities
from chipwise.verify.scoring.entity import LITERAL, USUAL, missing_entities
from chipwise.verify.suite import read_suite
from tests.verify.scoring.test_numerals import spoken

SUITE = Path(__file__).parents[3] / "models" / "home_agent" / "suite.jsonl"

RIGHT = """
19:30|今晚七点半
19:30|7:30 tonight
19:30|Tonight, I will turn it on at 7:30.
20:00|夜晚八点
02:00|晚上两点
-5|设为零下5度
-5|设为零下五度
-5|负5
-5|minus 5
-5|minus five degrees
-5|it is 5 degrees below zero
-5 °C|零下摄氏五度
-5|\u22125
-26 °C|零下26°C
5000 mg|5,000 mg
72 °F|72 degrees Fahrenheit
72 °F|72 degrees F
72 °F|华氏72度
72 °F|72度（华氏）
26 °C|26 degrees Celsius
5 MW|5 MW
5 mW|5 milliwatts
5 kWh|5 kwh
5 MHz|5 mhz
5 mg|5 MG
10 min|10 Minutes
10 min|ten minutes
2 h|两个小时
26|twenty-six
205|two hundred and five
1500|一千五
1500|1.5 thousand
10000|1万
15000|1.5万
35000|三万五
120|[5,120]
5|[5,120]
26|温度为26时
100 km/h|100公里每小时
turn_off|turn\u200b_off
""".strip().splitlines()

WRONG = """
07:30|今晚七点半
7:30|7:30 tonight
7:30|晚间7点半
7:30|Tonight, I will turn it on at 7:30.
7:30|from 7:30 to 8:30 pm
08:00|夜晚八点
14:00|晚上两点
19:00|差五分七点
20:00|a quarter to 8 pm
03:05|三点五度
01:00|调亮一点
5|设为零下5度
5|负5
5|minus 5
5|5 degrees below zero
26|零下26°C
5|5,000 mg
12|12,500
500|12,500
5|5 000 mg
5|5万
1.5|1.5万
5|5 million
1|1/2 cup
5|turn it on at 5 pm
5|5点半
72 °C|72 degrees Fahrenheit
72 °C|72 degrees F
72 degrees|72 degrees F
72 °C|华氏72度
72度|华氏72度
72 °C|In Fahrenheit it is 72 degrees
5 mW|5 MW
5 MW|5 mW
5 MV|5 mV
5 m|5 M
5 MPa|5 mPa
5 Mb|5 MB
2 h|两个半小时
2 h|2 h 30 min
2小时|2小时半
5 km|5 km/h
5度|5度电
13800138001|13800138000
1700000001|1,700,000,000
1005|一千五
1|one of the lamps
30|seven thirty
2026|twenty twenty-six
26|twenty-sixth
""".strip().splitlines()


@pytest.mark.parametrize("row", RIGHT)
def test_what_is_said(row: str) -> None:
    wanted, answer = row.split("|")
    assert missing_entities([wanted], answer, USUAL) == ()


@pytest.mark.parametrize("row", WRONG)
@pytest.mark.parametrize("same", [USUAL, LITERAL])
def test_what_is_not_said(row: str, same: frozenset[str]) -> None:
    wanted, answer = row.split("|")
    assert missing_entities([wanted], answer, same) == (wanted,)


@given(st.integers(1, 10**7), st.sampled_from(["负{}", "零下{}度", "minus {}", "negative {} °C", "\u2212{}", "-{}"]))
def test_a_negative_number_is_never_its_opposite(number: int, form: str) -> None:
    for same in (USUAL, LITERAL):
        assert missing_entities([f"-{number}"], form.format(number), same) == ()
        assert missing_entities([str(number)], form.format(number), same) != ()
    assert entities(form.format(number))[0].startswith("-")


@given(st.integers(1, 10**7), st.integers(1, 10**7))
def test_a_number_in_chinese_is_that_number_only(number: int, other: int) -> None:
    said = f"设为{spoken(number)}克"
    assert missing_entities([f"{number} g"], said) == ()
    assert (missing_entities([f"{other} g"], said) == ()) == (number == other)


@given(st.integers(1000, 10**9), st.integers(0, 10**4))
def test_no_group_of_a_number_is_the_number(number: int, other: int) -> None:
    said = f"take {number:,} mg"
    assert missing_entities([f"{number} mg"], said) == ()
    assert missing_entities([str(other)], said) != () or other == number
    assert missing_entities([str(other)], said, LITERAL) != ()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("7 at 5 pm", ("7", "5 pm")),
        ("零下5度", ("-5度",)),
        ("minus 5 °C", ("-5 °c",)),
        ("At 7:30 tonight take 5,000 mg", ("7:30 tonight", "5,000 mg")),
        ("今晚七点半把3号灯调到26度", ("今晚七点半", "3", "26度")),
        ("花了1.5万元", ("1.5万",)),
    ],
)
def test_what_an_answer_is_drafted_from(text: str, found: tuple[str, ...]) -> None:
    assert entities(text) == found
    assert missing_entities(found, text, USUAL) == missing_entities(found, text, LITERAL) == ()


def test_the_home_agents_suite_holds_its_expected_answers_right() -> None:
    expected = {record["id"]: record["expected"] for record in map(json.loads, SUITE.read_text("utf-8").splitlines())}
    cases = read_suite(SUITE).cases
    assert len(cases) == 120
    for case in cases:
        assert case.misses(expected[case.id]) == (), case.id
