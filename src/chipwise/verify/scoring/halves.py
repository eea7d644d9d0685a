"""Halves and quarters as decimals: 一个半小时 is 1.5小时, half an hour is 0.5 hours, 26度半 is 26.5度."""

from __future__ import annotations

import re

from chipwise.verify.scoring.numerals import chinese_number

_ONE = "(?:[0-9]{1,6}|[一二两三四五六七八九十]{1,3})"
_LEFT = r"(?<![0-9.零一二两三四五六七八九十百千万亿第点])"
_HOURS = "小时|钟头"
_NAMES = f"{_HOURS}|分钟|公里|公斤|千克|斤|克|升|米|吨"
# 两个半小时 are two and a half hours; 半天 and 半个月 are said of about so long.
_AND_HALF_HOURS = re.compile(rf"{_LEFT}({_ONE})\s?个半({_HOURS})")
_BEHIND = re.compile(rf"{_LEFT}({_ONE})\s?(个?(?:{_HOURS})|{_NAMES}|度)半(?![小个天夜月年分钟公斤里米升径])")
_HALF = re.compile(
    rf"(?<![0-9零一二两三四五六七八九十百千万亿个大多小时头钟里斤克升米吨])半(?:个({_HOURS})|({_NAMES}))"
)
_QUARTERS = re.compile(r"(?<![点点時时])(?<![0-9零一二两三四五六七八九十百千万亿])([一三])刻钟")

_WORDS = {
    word: str(value)
    for value, word in enumerate(("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"), 1)
}
_AN = {"a": "1", "an": "1"}
_UNIT_EN = r"hours?|minutes?|days?|kilomet(?:er|re)s?|met(?:er|re)s?|lit(?:er|re)s?|kilos?|kilograms?|km|kg|degrees?"
_COUNT_EN = "|".join(["[0-9]{1,6}", *_WORDS])
_AND_HALF = re.compile(
    rf"(?<![A-Za-z0-9_.,/-])({_COUNT_EN})\s(?:and\s)?a\shalf\s({_UNIT_EN})(?![A-Za-z0-9_-])", re.IGNORECASE
)
_UNIT_AND_HALF = re.compile(
    rf"(?<![A-Za-z0-9_.,/-])({_COUNT_EN}|an?)\s({_UNIT_EN})\sand\sa\shalf(?![A-Za-z0-9_-])", re.IGNORECASE
)
_HALF_EN = re.compile(
    r"(?<![A-Za-z0-9_-])(?<!and )(?<!and a )(?:half\san?|half-an?|a\shalf|half)[\s-]"
    r"(hour|minute|kilomet(?:er|re)|met(?:er|re)|lit(?:er|re)|kilo)(?![A-Za-z0-9_-])",
    re.IGNORECASE,
)
_QUARTER_EN = re.compile(
    r"(?<![A-Za-z0-9_-])(?<!and )(?:a|one|(three))\squarters?\sof\san\shour(?![A-Za-z0-9_-])", re.IGNORECASE
)


def with_decimals(text: str) -> str:
    """A plain text (``written.plain``) with halves and quarters of quantities as decimals and minutes."""
    if "半" in text or "刻" in text:
        text = _AND_HALF_HOURS.sub(_plus_half, text)
        text = _BEHIND.sub(_plus_half, text)
        text = _HALF.sub(lambda match: f" 0.5{match[1] or match[2]}", text)
        text = _QUARTERS.sub(lambda match: "45分钟" if match[1] == "三" else "15分钟", text)
    folded = text.casefold()
    if "half" in folded or "quarter" in folded:
        text = _AND_HALF.sub(_plus_half, text)
        text = _UNIT_AND_HALF.sub(_plus_half, text)
        text = _HALF_EN.sub(r"0.5 \1", text)
        text = _QUARTER_EN.sub(lambda match: "45 minutes" if match[1] else "15 minutes", text)
    return text


def _plus_half(match: re.Match[str]) -> str:
    said = match[1].casefold()
    number = said if said.isdecimal() else _WORDS.get(said) or _AN.get(said) or chinese_number(said)
    space = " " if match[2].isascii() else ""
    return match[0] if number is None else f"{number}.5{space}{match[2]}"
