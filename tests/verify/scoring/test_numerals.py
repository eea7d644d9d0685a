from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chipwise.verify.scoring.numerals import chinese_number, with_digits

DIGITS = "零一二三四五六七八九"


def spoken(number: int) -> str:
    """A number as it is said, for the test: places within groups of four, a zero where places are skipped."""
    if number == 0:
        return "零"
    groups, said = [(10**8, "亿"), (10**4, "万"), (1, "")], ""
    for size, mark in groups:
        group = number // size % 10**4
        if not group:
            continue
        zero = bool(said) and group < 1000
        said += ("零" if zero else "") + _group(group) + mark
    return said


def _group(group: int) -> str:
    said, skipped = "", False
    for size, mark in ((1000, "千"), (100, "百"), (10, "十"), (1, "")):
        digit = group // size % 10
        if digit:
            said += ("零" if skipped and said else "") + DIGITS[digit] + mark
            skipped = False
        else:
            skipped = True
    return said


@given(st.integers(0, 10**12 - 1))
def test_every_number_that_is_said_is_read(number: int) -> None:
    assert chinese_number(spoken(number)) == str(number)


@given(st.text(st.sampled_from("零〇一幺二两三九十百千万亿点")))
def test_any_row_of_characters_is_a_number_or_none(text: str) -> None:
    value = chinese_number(text)
    assert value is None or float(value) >= 0


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("十", "10"),
        ("十六", "16"),
        ("二十六", "26"),
        ("两百零五", "205"),
        ("一千零一十", "1010"),
        ("三万五千", "35000"),
        ("二零二六", "2026"),
        ("一二三", "123"),
        ("三点五", "3.5"),
        ("二十六点零五", "26.05"),
        ("零点五", "0.5"),
        ("千万", None),
        ("万一", None),
        ("百", None),
        ("十百", None),
        ("一百二百", None),
        ("点五", None),
        ("三点", None),
        ("", None),
    ],
)
def test_numbers(text: str, value: str | None) -> None:
    assert chinese_number(text) == value


@pytest.mark.parametrize(
    ("text", "digits"),
    [
        ("设为二十六度", "设为26度"),
        ("第三层", "第3层"),
        ("零下五度", "-5度"),
        ("百分之三十", "30%"),
        ("百分之30", "30%"),
        ("五分钟后", "5分钟后"),
        ("看一下", "看一下"),
        ("统一", "统一"),
        ("千万别动", "千万别动"),
        ("二〇二六年", "2026年"),
    ],
)
def test_only_what_is_meant_as_a_number_is_written_in_digits(text: str, digits: str) -> None:
    assert with_digits(text) == digits


@given(st.text())
def test_text_without_numerals_stays(text: str) -> None:
    assert with_digits(with_digits(text)) is not None
    # English numerals have letters.
    if not set(text) & set("零〇一幺二两三四五六七八九十百千万亿") and not any(
        map(str.isascii, filter(str.isalpha, text))
    ):
        assert with_digits(text) == text or "百分之" in text
