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


@pytest.mark.parametrize(
    ("text", "times"),
    [
        ("今晚七点半", [at(19, 30)]),
        ("明晚8点", [at(20)]),
        ("昨晚11:30", [at(23, 30)]),
        ("今早六点", [at(6)]),
        ("明早7点", [at(7)]),
        ("傍晚六点", [at(18)]),
        ("夜间10点", [at(22)]),
        ("夜晚八点", [at(20)]),
        ("晚间7点半", [at(19, 30)]),
        ("深夜11点", [at(23)]),
        ("半夜两点", [at(2)]),
        ("夜里三点", [at(3)]),
        ("晚上一点", [at(1)]),
        ("晚上两点", [at(2)]),
        ("晚8点半", [at(20, 30)]),
        ("最晚7点", [at(7)]),
        ("凌晨3点", [at(3)]),
        ("午夜12点", [at(0)]),
        ("午夜", [at(0)]),
        ("正午", [at(12)]),
        ("noon", [at(12)]),
        ("12 noon", [at(12)]),
        ("before noon", []),
        ("afternoon", []),
        ("midnight", [at(0)]),
        ("at 3 in the afternoon", [at(15)]),
        ("at 11 at night", [at(23)]),
        ("at 2 at night", [at(2)]),
        ("12:30 at night", [at(0, 30)]),
        ("7:30 this morning", [at(7, 30)]),
        ("tomorrow morning at 7:30", [at(7, 30)]),
        ("7:30 on Monday evening", [at(19, 30)]),
        ("7.30 pm", [at(19, 30)]),
        ("12 pm", [at(12)]),
        ("上午12点", []),
        ("晚上4点", []),
        ("今晚 7:30 am", []),
        ("7:30 pm tonight", [at(19, 30)]),
        ("今晚七点到八点", [at(19), at(20)]),
        ("今晚十点到六点", [at(22)]),
        ("7:30 to 8:30 pm", [at(20, 30)]),
        ("7:30 tonight, 8:15 tomorrow morning", [at(19, 30), at(8, 15)]),
        ("Tonight at 7:30, tomorrow morning at 8:15", [at(19, 30), at(8, 15)]),
        ("Good evening! It is set for 7:30.", [at(7, 30)]),
        ("night light at 7:30", []),
        ("Evening mode on at 07:30", [at(7, 30)]),
        ('{"scene":"evening","time":"7:30"}', [at(7, 30)]),
        ("set 3 lamps tonight", []),
        ("三点五度", []),
        ("亮一点", []),
        ("第三点", []),
        ("差五分七点", []),
        ("half past 7 pm", []),
    ],
)
def test_parts_of_the_day(text: str, times: list[int]) -> None:
    assert list(times_in(text)) == times


@given(st.integers(1, 11), st.integers(0, 59), st.sampled_from(["{} pm", "下午{}", "{} in the afternoon"]))
def test_an_hour_after_noon_is_never_one_before(hour: int, minute: int, form: str) -> None:
    said = form.format(f"{hour}:{minute:02d}")
    for text in (said, f"Please, {said}!"):
        assert times_in(text) == (at(hour + 12, minute),)


@given(st.integers(0, 24), st.sampled_from(["今晚{}点", "晚上{}点", "夜里{}点", "tonight at {}:00", "{}:00 at night"]))
def test_no_night_is_at_noon(hour: int, form: str) -> None:
    assert all(time >= at(17) or time < at(6) for time in times_in(form.format(hour)))
