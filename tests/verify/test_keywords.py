from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chipwise.verify.domains import DOMAINS, generate
from chipwise.verify.keywords import entities, missing_keywords, normalise

FOUND = [
    ("26", "设为26度"),
    ("26", "26 °C"),
    ("26", '{"value":26,"unit":"C"}'),
    ("26", "26.0"),
    ("26", "20-26 min"),
    ("26", "[1,26]"),
    ("26", "It is 26."),
    ("-5", "-5 C"),
    ("-5", "−5"),
    ("22.5", "22.50 C"),
    ("on", "Turn on."),
    ("light", "the light, please"),
    ("light-0042", "LIGHT-0042在"),
    ("E123", "Ｅ１２３电机"),
    ("26 °C", "26℃"),
    ("26℃", "26 °C."),
    ("30%", "30 ％"),
    ("30分钟", "30 分钟"),
    ("第3层", "第 3 层"),
    ("living room", "the living  room"),
    ("living_room", '"living_room"'),
    ("07:30", "at 07:30:00"),
    ("07:30", "０７：３０"),
    ("true", '"audio":true'),
    ("C", '"unit":"C"'),
    ("5 km", "5km"),
    ("打开 TV", "打开tv"),
    ("(x)", "f(x)"),
    ("0", "0"),
]

MISSING = [
    ("26", "126"),
    ("26", "26.05"),
    ("26", "2.26"),
    ("26", "-26"),
    ("26", "12:26"),
    ("26", "26:30"),
    ("26", "cam-26"),
    ("26", "E26"),
    ("26", "26b7"),
    ("45", '{"pan":-45}'),
    ("-5", "5"),
    ("22.5", "22.55"),
    ("22.5", "22"),
    ("on", "none"),
    ("on", "turn_on"),
    ("light", "light-0042"),
    ("E123", "E1234"),
    ("cam-12", "cam-12-3"),
    ("07:30", "07:30:15"),
    ("07:30", "17:30"),
    ("07:30", "at 7:30"),
    ("C", "cat"),
    ("5 km", "5 kmh"),
    ("a.b", "axb"),
    ("0", "10"),
    ("26", ""),
]


@pytest.mark.parametrize(("keyword", "answer"), FOUND)
def test_found(keyword: str, answer: str) -> None:
    assert missing_keywords([keyword], answer) == ()


@pytest.mark.parametrize(("keyword", "answer"), MISSING)
def test_missing(keyword: str, answer: str) -> None:
    assert missing_keywords([keyword], answer) == (keyword,)


def test_only_what_is_missing_is_named_in_order() -> None:
    assert missing_keywords(["b", "a", "c"], "a") == ("b", "c")


@given(st.text(min_size=1).filter(normalise))
def test_a_text_holds_itself(text: str) -> None:
    assert missing_keywords([text], text) == ()


@given(st.text(), st.text(min_size=1).filter(normalise))
def test_any_input_is_answered(answer: str, keyword: str) -> None:
    assert set(missing_keywords([keyword], answer)) <= {keyword}


@pytest.mark.parametrize("domain", sorted(DOMAINS))
def test_the_right_answer_of_every_domain_holds_its_keywords(domain: str) -> None:
    for case in generate(domain, 60, seed=5, split="train"):
        assert missing_keywords(case.keywords, case.expected) == (), case.id
        assert missing_keywords(entities(case.expected), case.expected) == (), case.id


@pytest.mark.parametrize("domain", sorted(DOMAINS))
def test_the_answer_of_another_case_does_not_hold_them(domain: str) -> None:
    cases = generate(domain, 40, seed=6, split="train")
    fooled = [
        (case.id, other.id)
        for case, other in pairwise(cases)
        if case.expected != other.expected and not missing_keywords(case.keywords, other.expected)
    ]
    assert fooled == []


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        (
            '{"tool":"set","room":"a b","v":[1,2.5],"on":true,"none":null,"empty":""}',
            ("set", "a b", "1", "2.5", "true", "null"),
        ),
        (
            "light-0042 reported E123 overheating at 07:30; 85.5 °C, -5 C, 30%",
            ("light-0042", "e123", "07:30", "85.5 °c", "-5 c", "30%"),
        ),
        ("light-12在07:30报E123过热，温度85度。", ("light-12", "07:30", "e123", "85度")),
        ("Timer for 1 h 30 min", ("1 h 30 min",)),
        ("1小时30分钟的闹钟", ("1小时30分钟",)),
        ("6-7 pm", ("7 pm",)),
        ("周一八点开会", ("八点",)),
        ("时速100公里", ("100公里/小时",)),
        ("On 2024-05-26 say “good night”.", ("2024-05-26", "good night")),
        ("26", ("26",)),
        ("5 in the box", ("5",)),
        ("a 2x4 grid of 8", ("8",)),
        ("nothing to hold", ()),
        ('" "', ()),
        ("It comes on at 7:30 pm, off at 下午8:15", ("7:30 pm", "下午8:15")),
        ("", ()),
    ],
)
def test_entities_of_an_expected_answer(expected: str, found: tuple[str, ...]) -> None:
    assert entities(expected) == found


@given(st.text(st.sampled_from("aE1207:.-%°C度报 「\"' ")) | st.text(st.characters(exclude_characters="[{")))
def test_entities_are_found_in_what_they_came_from(text: str) -> None:
    found = entities(text)
    assert all(map(normalise, found))
    assert missing_keywords(found, text) == ()
