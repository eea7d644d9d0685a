"""Chinese numerals as digits: 二十六 is 26, 三点五 is 3.5, 百分之三十 is 30%."""

from __future__ import annotations

import re

_DIGITS = {letter: value for value, letter in enumerate("零一二三四五六七八九")} | {"〇": 0, "幺": 1, "两": 2}
_PLACES = {"十": 10, "百": 100, "千": 1000}
_GROUPS = {"万": 10**4, "亿": 10**8}

RUN = f"[{''.join([*_DIGITS, *_PLACES, *_GROUPS])}]+"
"""A regular expression of the characters a Chinese whole number is written with."""

_DECIMALS = f"点[{''.join(_DIGITS)}]+(?![十百千万亿])"
# Behind one of these a single character is meant as a number; elsewhere it is mostly part of a word, such as 一下.
_COUNTED = "点时分秒度号楼层档级台次帧转米克升伏安瓦天年月日公千毫厘小摄华%"
_NUMERAL = re.compile(rf"(?P<minus>负|零下)?(?P<first>第)?(?P<number>{RUN}(?:{_DECIMALS})?)(?=(?P<next>.?))", re.DOTALL)
_PERCENT = re.compile(rf"百分之(?P<number>{RUN}(?:{_DECIMALS})?|\d+(?:\.\d+)?)")


def chinese_number(text: str) -> str | None:
    """The digits of a Chinese number, such as ``26`` or ``3.5``; None if the characters make none.

    Digits one after the other (二零二六) are read as such; otherwise places go down within a group of four (三千零五),
    and groups from 亿 to 万. A number may begin with 十, but not with another place: 千万 and 万一 are words.
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
    return total + (digit or 0) if text else None


def with_digits(text: str) -> str:
    """The text with Chinese numerals written in digits, where they are meant as numbers."""
    return _NUMERAL.sub(_as_digits, _PERCENT.sub(_as_percent, text))


def _as_percent(match: re.Match[str]) -> str:
    found = match["number"]
    value = found if found[0].isascii() else chinese_number(found)
    return match[0] if value is None else f"{value}%"


def _as_digits(match: re.Match[str]) -> str:
    number = match["number"]
    value = chinese_number(number)
    counted = bool(match["next"]) and match["next"] in _COUNTED
    if value is None or (len(number) == 1 and not (match["first"] or match["minus"] or counted)):
        return match[0]
    return f"{'-' if match['minus'] else ''}{match['first'] or ''}{value}"
