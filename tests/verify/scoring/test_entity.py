from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chipwise.verify.keywords import entities, missing_keywords, normalise
from chipwise.verify.scoring.entity import LITERAL, USUAL, missing_entities, same_value
from tests.verify.test_keywords import FOUND, MISSING

ALL = USUAL | {"separator"}


@pytest.mark.parametrize(
    ("wanted", "answer"),
    [
        ("19:30", "at 7:30 pm"),
        ("7:30 pm", "19:30:00"),
        ("19:30", "晚上七点半"),
        ("1.5 kg", "1500克"),
        ("26度", "二十六度"),
        ("26", "设为二十六摄氏度"),
        ("第3层", "第三层"),
        ("30%", "百分之三十"),
        ("07:30", "at 7:30"),
        ("1500", "1,500"),
        ("-5度", "零下五度"),
    ],
)
def test_what_means_the_same_is_found_unless_that_is_switched_off(wanted: str, answer: str) -> None:
    assert missing_entities([wanted], answer) == ()
    assert missing_entities([wanted], answer, LITERAL) == (wanted,)


@pytest.mark.parametrize(
    ("wanted", "answer"),
    [
        ("7:30", "at 7:30 pm"),
        ("45", '{"pan":-45}'),
        ("1", "看一下"),
        ("26", "12:26"),
        ("cam-12", "cam-120"),
        ("26", "cam-26"),
        ("5 km", "5 kmh"),
        ("26°C", "26 °F"),
        ("E123", "E1234"),
    ],
)
def test_what_means_something_else_is_missing(wanted: str, answer: str) -> None:
    assert missing_entities([wanted], answer, ALL) == (wanted,)


def test_separators_of_identifiers_count_unless_switched_off() -> None:
    assert missing_entities(["cam-12"], "cam 12") == ("cam-12",)
    assert missing_entities(["cam-12"], "cam_12", ALL) == ()


@pytest.mark.parametrize(("keyword", "answer"), FOUND)
def test_what_is_found_literally_is_found(keyword: str, answer: str) -> None:
    assert missing_entities([keyword], answer) == ()


@pytest.mark.parametrize(("keyword", "answer"), [pair for pair in MISSING if pair != ("07:30", "at 7:30")])
def test_leniency_finds_nothing_in_what_is_another_thing(keyword: str, answer: str) -> None:
    assert missing_entities([keyword], answer) == (keyword,)


@given(st.lists(st.text(min_size=1).filter(normalise), max_size=3), st.text())
def test_leniency_only_adds_but_for_times(wanted: list[str], answer: str) -> None:
    strict = missing_entities(wanted, answer, LITERAL)
    assert set(missing_keywords(wanted, answer)) <= set(strict)
    assert set(missing_entities(wanted, answer, USUAL)) <= set(wanted)


@given(st.text(st.sampled_from("aE1207:.-%°C度 kg点半下午pm「\"' ")))
def test_entities_of_an_answer_are_in_it(text: str) -> None:
    assert missing_entities(entities(text), text) == ()


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("7:30 PM", "19:30", True),
        ("1.5kg", "1500 g", True),
        ("Living Room", "living  room", True),
        ("二十六", "26", True),
        ("26", "26.0", True),
        ("7:30", "19:30", False),
        ("on", "off", False),
        ("26", "26 kg", False),
    ],
)
def test_whole_values(one: str, other: str, same: bool) -> None:
    assert same_value(one, other) == same
    assert not same_value("cam-12", "cam 12")
    assert same_value("cam-12", "cam 12", ALL)


@pytest.mark.parametrize(
    "answer",
    [
        "温度为零下" + "\n" * 100_000 + "度",
        "a" + " " * 100_000 + "b",
        "7" * 100_000,
        "five " * 20_000,
        "今晚7点" * 25_000,
        "1 h " * 25_000,
        "每小时5" * 25_000,
    ],
    ids=["line ends", "spaces", "digits", "words", "times", "sums", "rates"],
)
def test_an_answer_of_100_000_characters_is_scored_within_seconds(answer: str) -> None:
    start = time.perf_counter()
    missing_entities(["5 km", "19:30", "五分钟"], answer)
    entities(answer)
    assert time.perf_counter() - start < 10


@pytest.mark.parametrize("piece", ["1", "1,", "点", "一", "一点", "7:", "a-", " ", "十", '"', "下午", "1.5 k"])
def test_long_rows_of_anything_are_read_in_time_that_grows_with_them(piece: str) -> None:
    start = time.perf_counter()
    missing_entities(["19:30", "26 kg", "cam-1"], piece * 20_000, ALL)
    assert time.perf_counter() - start < 5
