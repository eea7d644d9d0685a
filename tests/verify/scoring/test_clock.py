from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chipwise.verify.scoring.clock import time_of, times_in
from tests.verify.scoring.test_numerals import spoken


def at(hour: int, minute: int = 0, second: int = 0) -> int:
    return (hour * 60 + minute) * 60 + second


@given(st.integers(0, 23), st.integers(0, 59))
def test_a_time_is_the_same_however_it_is_said(hour: int, minute: int) -> None:
    half, twelve = ("am" if hour < 12 else "pm"), hour % 12 or 12
    forms = [
        f"{hour}:{minute:02d}",
        f"{hour:02d}:{minute:02d}:00",
        f"{twelve}:{minute:02d} {half}",
        f"{twelve}:{minute:02d}{half.upper()}",
        f"{hour}点{minute}分",
        f"{spoken(hour)}点{spoken(minute)}分",
    ]
    assert {time_of(form) for form in forms} == {at(hour, minute)}
    for form in forms:
        assert at(hour, minute) in times_in(f"请在 {form}, 谢谢")


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("下午7点半", at(19, 30)),
        ("晚上七点半", at(19, 30)),
        ("上午十点一刻", at(10, 15)),
        ("中午12点", at(12)),
        ("中午1点", at(13)),
        ("凌晨12:05", at(0, 5)),
        ("晚上12点", at(0)),
        ("7 pm", at(19)),
        ("12 am", at(0)),
        ("12:30 p.m.", at(12, 30)),
        ("１９：３０", at(19, 30)),
        ("19時30分", at(19, 30)),
        ("24:00", at(0)),
        ("7点整", at(7)),
        ("7点钟", at(7)),
        ("25:00", None),
        ("7:60", None),
        ("上午13点", None),
        ("7:3", None),
        ("1:02:03:04", None),
        ("12:30.5", None),
        ("", None),
        ("30", None),
        ("19:30 and 20:00", None),
    ],
)
def test_times(text: str, time: int | None) -> None:
    assert time_of(text) == time


def test_an_hour_without_a_part_of_the_day_is_of_24() -> None:
    assert times_in("at 7:30") == (at(7, 30),)
    assert times_in("3小时后") == ()
    assert times_in("ratio 1:2") == ()


@given(st.text())
def test_any_text_has_times_of_one_day(text: str) -> None:
    assert all(0 <= time < 86400 for time in times_in(text))
