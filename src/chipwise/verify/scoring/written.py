"""Texts as they are compared: one form of characters, and one way to write signs, scales and arrays of numbers."""

from __future__ import annotations

import json
import re
import unicodedata

# Characters without a shape: a word with one inside is the same word, and a text of them alone says nothing.
_INVISIBLE = re.compile(
    "[\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0"
    "\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
# Hyphens, dashes, the minus sign and the slash of fractions, which NFKC leaves apart.
_MARKS = {**dict.fromkeys([*range(0x2010, 0x2016), 0x2212], "-"), 0x2044: "/"}

CASE_MARK = "\ue000"
"""Stands behind a prefix of a unit whose capital counts, once capitals are gone."""

_ARRAY = re.compile(r"\[[^\[\]]{0,500}\]")
_COMMA = re.compile(r'"(?:[^"\\]|\\.)*"|,(?=-?\d)')
_SPACED_GROUPS = re.compile(r"(?<![\w.,:/-])(\d{1,3})((?: \d{3})+)(?![\w:/]|[.,-]\d)")

_AMOUNT = r"\d+(?:\.\d+)?"
_MINUS_ZH = re.compile(
    rf"(?:(?<!正)负|零下|[零0]\s?(?:度|°[Cc])以下|冰点以下)\s*(?:约|大约|大概|近)?\s*(?:摄氏)?\s*(?={_AMOUNT})"
)
_MINUS_EN = re.compile(r"(?<![\w-])(?<!\d )(?:minus|negative)[\s-]+(?=\d)", re.IGNORECASE)
_BELOW_ZERO = re.compile(
    rf"(?<![\w.,:/-])({_AMOUNT}(?:\s?(?:°[CF]?|degrees?|deg|[CF]|celsius|fahrenheit|摄氏度|度))?)"
    r"\s+below\s+(?:zero|freezing|0)(?![\w.])",
    re.IGNORECASE,
)
_SCALE_EN = re.compile(
    r"(?<=\d)(\s?)(?:°|degrees?|deg\.?)\s*\(?\s*(fahrenheit|celsius|centigrade|kelvin|[fc])(?![A-Za-z0-9])\)?",
    re.IGNORECASE,
)
_SCALE_ZH = re.compile(r"(?<=\d)(\s?)度\s*\(?\s*(华氏|摄氏|[FfCc](?![A-Za-z0-9]))(?!度)\)?")
_FAHRENHEIT_ZH = re.compile(rf"(零下|负)?\s*华氏(?:温度)?(?:为|是)?\s*(零下|负|-)?\s*({_AMOUNT})\s*度?(?![\d.]*\d)")
_SCALES = {"f": "°F", "fahrenheit": "°F", "华氏": "°F", "kelvin": "K"}

_MEGA = re.compile(r"(?<=\d)(\s?)M(?=(?:[Ww][Hh]?|[Vv][Aa]?|[Aa]|[Jj]|[ΩωΩ]|[Oo][Hh][Mm][Ss]?)?(?![A-Za-z0-9]))")
_MILLI = re.compile(r"(?<=\d)(\s?)m(?=(?:Pa|Hz)(?![A-Za-z0-9]))")
_BITS = re.compile(r"(?<=\d)(\s?[kKMGT])b(?![A-Za-z0-9])")
_BYTES = re.compile(r"(?<=\d)(\s?[kKMGT])B(?=ps(?![a-z])|/s)")

NUMBER_LEFT = r"(?<![A-Za-z0-9_])(?<![0-9][.:/])(?<![0-9][,'](?=[0-9]{3}(?![0-9])))"
"""What stands before a number that is not the end of an identifier, a time, a fraction or a longer number."""

NUMBER_RIGHT = (
    r"(?![0-9_]|[.:/][0-9]|[,'][0-9]{3}(?![0-9])|[A-Za-z]+[0-9])"
    r"(?!\s?(?:[十百万亿]|千(?![克瓦米卡伏赫帕焦])|(?:hundred|thousand|million|billion)s?(?![a-z])))"
)
"""What stands behind a number that is not the beginning of one: 5 is not in 5,000, 5.2, 5:30, 5万 or 5 million."""

NO_TIME = r"(?!\s?(?:[AaPp]\.?[Mm](?![A-Za-z])|o'clock|[点點]))"
"""What stands behind a number that is no hour: 5 is not in 5 pm and 5点半."""

UNIT_RIGHT = (
    r"(?!\s?(?:/\s?[A-Za-z]|per\s(?:second|minute|hour)|每(?:秒|分|小时)|半|又|and\sa\shalf|电))"
    r"(?!,?\s?(?:and\s|零)?\d+(?:\.\d+)?\s?(?:min|分|s(?![a-z])|sec|秒))"
)
"""What stands behind a unit that is whole: 5 km is not in 5 km/h, 2 h not in 2 h 30 min, 5度 not in 5度电."""


def plain(text: str) -> str:
    """The text with one form for what looks alike (NFKC, dashes) and without what has no shape; capitals stay."""
    return unicodedata.normalize("NFKC", _INVISIBLE.sub("", text)).translate(_MARKS)


def with_signs(text: str) -> str:
    """A plain text with its numbers written one way.

    A minus in words is a sign: 零下5度, 负5, minus 5, 5 below zero. Degrees of Fahrenheit and Celsius have their mark
    behind the number: 华氏72度, 72 degrees F. Items of an array stand apart: [5,120] is no 5120. What may be one number
    in groups, 5 000, is held together by marks.
    """
    text = _ARRAY.sub(_apart, text)
    text = _SPACED_GROUPS.sub(lambda match: match[0].replace(" ", "'"), text)
    text = _FAHRENHEIT_ZH.sub(lambda match: f"{'-' if match[1] or match[2] else ''}{match[3]}°F", text)
    text = _SCALE_ZH.sub(_with_scale, _SCALE_EN.sub(_with_scale, text))
    text = _MINUS_EN.sub("-", _MINUS_ZH.sub("-", text))
    return _BELOW_ZERO.sub(r"-\1", text)


def with_case_marks(text: str) -> str:
    """The text with a mark behind prefixes whose capital counts, so that 5 MW is no 5 mW without its capitals either.

    M before W, V, A, J, Wh, ohm and alone; m before Pa and Hz, which stand for mega in small letters, too; b for bits.
    """
    text = _MEGA.sub(rf"\1M{CASE_MARK}", _MILLI.sub(rf"\1m{CASE_MARK}", text))
    return _BYTES.sub(rf"\1B{CASE_MARK}", _BITS.sub(rf"\1b{CASE_MARK}", text))


def says_something(text: str) -> bool:
    """Whether a text has a letter or a digit; marks, damage and what has no shape are none."""
    return any(unicodedata.category(letter)[0] in "LN" for letter in plain(text))


def _apart(match: re.Match[str]) -> str:
    try:
        json.loads(match[0])
    except ValueError:
        return match[0]
    return _COMMA.sub(lambda comma: ", " if comma[0] == "," else comma[0], match[0])


def _with_scale(match: re.Match[str]) -> str:
    return match[1] + _SCALES.get(match[2].casefold(), "°C")
