"""Numerals as digits: 二十六 and twenty-six are 26, 三点五 is 3.5, 百分之三十 is 30%, 1.5万 is 15000."""

from __future__ import annotations

import re
from decimal import Decimal

from chipwise.verify.scoring.english_numerals import with_english_digits
from chipwise.verify.scoring.units import UNITS

_DIGITS = {letter: value for value, letter in enumerate("零一二三四五六七八九")} | {"〇": 0, "幺": 1, "两": 2}
_PLACES = {"十": 10, "百": 100, "千": 1000}
_GROUPS = {"万": 10**4, "亿": 10**8}

RUN = f"[{''.join([*_DIGITS, *_PLACES, *_GROUPS])}]+"
"""A regular expression of the characters a Chinese whole number is written with."""

# 千 before one of these is the unit's, not a place: 十千瓦 is 10 kW.
_KILO = "千(?=[克瓦米伏赫帕卡焦])"
_DECIMALS = f"点[{''.join(_DIGITS)}]+(?!(?!{_KILO})[十百千万亿{''.join(_DIGITS)}])"
# Behind one of these a single character is meant as a number; elsewhere it is mostly part of a word, such as 一下.
_UNITS_ZH = sorted((name for name in UNITS if name[0] >= "\u4e00"), key=len, reverse=True)
_COUNTED = re.compile(
    r"(?!转[眼身头念瞬]|巴掌|度过|次性|级棒|天天|时候|分[别外享]|安[全静]|时(?<=一时))"
    rf"(?:{'|'.join(map(re.escape, _UNITS_ZH))}|[点时分秒号楼层档挡级台次年月日%]|摄氏|华氏)"
)
# Behind more than one, these count things. 一条 and 一个 are articles.
_COUNTED_MANY = re.compile("(?:个(?!半)|[元块盏台只张辆套根包箱瓶杯份页]|人(?!转)|件(?!套)|条(?!件))")
# About as many, or a word: 五六度, 三五天, 一一.
_ABOUT = re.compile("一一|三五|一二|[二两]三|三四|四五|五六|六七|七八|八九")
# 十分 is "very" unless it is minutes or points.
_VERY = re.compile("分(?![钟后前内之到至的以左零一二三四五六七八九])(?=[\u3400-\u9fff])")
_KILO_UNIT = re.compile(_KILO)
_WEEK = re.compile("(?:周|星期|礼拜|初)$")
_NUMERAL = re.compile(rf"(?P<minus>负|零下)?(?P<first>第)?(?P<number>{RUN}(?:{_DECIMALS})?)")
# 两个小时 is 2小时, while 一个 alone is an article.
_COUNTED_LATER = re.compile("个(?:小时|钟头|百分点)")
_TIMES = re.compile(
    r"(?<![\d.,A-Za-z_-])(\d{1,12}(?:\.\d{1,12})?)\s?(百万|千万|百亿|千亿|万亿|万|亿|百(?![分帕])|千(?![克瓦米伏赫帕卡焦]))"
    r"(?![十百千万亿\d零一二三四五六七八九])"
)
_SCALES = {
    "百": 100,
    "千": 1000,
    "万": 10**4,
    "百万": 10**6,
    "千万": 10**7,
    "亿": 10**8,
    "百亿": 10**10,
    "千亿": 10**11,
    "万亿": 10**12,
}
_PERCENT = re.compile(rf"百分之(?P<number>{RUN}(?:{_DECIMALS})?|\d+(?:\.\d+)?)")


def chinese_number(text: str) -> str | None:
    """The digits of a Chinese number, such as ``26`` or ``3.5``; None if the characters make none.

    Digits one after the other (二零二六) are read as such; otherwise places go down within a group of four (三千零五),
    and groups from 亿 to 万. A last digit right behind a place counts the next lower one: 一千五 is 1500, 三万五 is
    35000. A number may begin with 十, but not with another place: 千万 and 万一 are words.
    """
    whole, point, decimals = text.partition("点")
    if not whole:
        return None
    if point and (not decimals or any(letter not in _DIGITS for letter in decimals)):
        return None
    if all(letter in _DIGITS for letter in whole):
        value = "".join(str(_DIGITS[letter]) for letter in whole)
    else:
        number = _with_places(whole)
        if number is None:
            return None
        value = str(number)
    return f"{value}.{''.join(str(_DIGITS[letter]) for letter in decimals)}" if point else value


def _with_places(text: str) -> int | None:
    total, rest = 0, text
    for mark, factor in sorted(_GROUPS.items(), key=lambda item: -item[1]):
        head, found, tail = rest.partition(mark)
        if found:
            group = _below_ten_thousand(head)
            if not group:
                return None
            total, rest = total + group * factor, tail
            if len(tail) == 1 and tail in _DIGITS and _DIGITS[tail]:
                return total + _DIGITS[tail] * factor // 10
    last = _below_ten_thousand(rest) if rest else 0
    return None if last is None else total + last


def _below_ten_thousand(text: str) -> int | None:
    total, digit, place = 0, None, 10**4
    for i, letter in enumerate(text):
        if letter in _PLACES:
            if (digit is None and not (letter == "十" and i == 0)) or _PLACES[letter] >= place:
                return None
            total, digit, place = total + (1 if digit is None else digit) * _PLACES[letter], None, _PLACES[letter]
        elif letter in _DIGITS:
            if digit is not None and digit != 0:
                return None
            digit = _DIGITS[letter]
        else:
            return None
    if digit and len(text) > 1 and text[-2] in _PLACES and 10 < place < 10**4:
        # Without a zero between: 一百二 is 120, 一百零二 is 102.
        digit *= place // 10
    return total + (digit or 0) if text else None


def with_digits(text: str) -> str:
    """The text with Chinese and English numerals written in digits, where they are meant as numbers."""
    chinese = _NUMERAL.sub(_as_digits, _PERCENT.sub(_as_percent, text))
    return with_english_digits(_TIMES.sub(_multiplied, chinese))


def _multiplied(match: re.Match[str]) -> str:
    return f"{(Decimal(match[1]) * _SCALES[match[2]]).normalize():f}"


def _as_percent(match: re.Match[str]) -> str:
    found = match["number"]
    value = found if found[0].isascii() else "100" if found == "百" else chinese_number(found)
    return match[0] if value is None else f"{value}%"


def _as_digits(match: re.Match[str]) -> str:
    number, text, kilo = match["number"], match.string, ""
    value = chinese_number(number)
    if value is None and number.endswith("千") and len(number) > 1 and _KILO_UNIT.match(text, match.end() - 1):
        number, kilo = number[:-1], "千"
        value = chinese_number(number)
    several = number != "一" and _COUNTED_MANY.match(text, match.end())
    counted = kilo or several or _COUNTED.match(text, match.end()) or _COUNTED_LATER.match(text, match.end())
    if value is None or (len(number) == 1 and not (match["first"] or match["minus"] or counted)):
        return match[0]
    if number == "十" and _VERY.match(text, match.end()):
        return match[0]
    if _ABOUT.fullmatch(number) or _WEEK.search(text, max(0, match.start() - 2), match.start()):
        return match[0]
    return f"{'-' if match['minus'] else ''}{match['first'] or ''}{value}{kilo}"
