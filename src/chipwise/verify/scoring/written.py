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
# NFKC would make 102 of 10².
_RAISED = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻]+")
_BLANKS = re.compile(r"\s+")
# Signs of their own for squares and cubes, of which NFKC would make m2.
_SQUARES = str.maketrans(
    {"㎟": "mm²", "㎠": "cm²", "㎡": "m²", "㎢": "km²", "㎣": "mm³", "㎤": "cm³", "㎥": "m³", "㎦": "km³"}
)
_SQUARE_M = re.compile(r"(?<=[0-9])(\s?[ckm]?m)([23])(?![A-Za-z0-9])")
_TIMES_SIGN = re.compile(r"(?<=\d)×(?=\d)")
# The day and the hour of 周二十点 are two numbers.
_WEEKDAY = re.compile("((?:周|星期|礼拜|初)[一二三四五六日天])(?=[零〇一二两三四五六七八九十]{1,3}[点點時时])")

CASE_MARK = "\ue000"
"""Stands behind a prefix of a unit whose capital counts, once capitals are gone."""

SUM_MARK = "\ue001"
"""Stands where a quantity goes on in a smaller unit, on both sides: 1 h and 30 min is neither 1 h nor 30 min."""

_ARRAY = re.compile(r"\[[^\[\]]{0,500}\]")
_COMMA = re.compile(r'"(?:[^"\\]|\\.)*"|,(?=-?\d)')
_SPACED_GROUPS = re.compile(r"(?<![A-Za-z0-9_.,:/-])(\d{1,3})((?: \d{3})+)(?![A-Za-z0-9_:/]|[.,-]\d)")

_AMOUNT = r"\d{1,60}(?:\.\d{1,60})?"
_MINUS_ZH = re.compile(
    rf"(?:(?<!正)负|零下|[零0]\s?(?:度|°[Cc])以下|冰点以下)\s?(?:的|约|大约|大概|近)?\s?(?:摄氏)?\s?(?={_AMOUNT})"
)
_MINUS_EN = re.compile(r"(?<![A-Za-z0-9_-])(?<!\d )(?:minus|negative)[\s-]+(?=\d)", re.IGNORECASE)
_BELOW_ZERO = re.compile(
    rf"(?<![A-Za-z0-9_.,:/-])({_AMOUNT}(?:\s?(?:°[CF]?|degrees?|deg|[CF]|celsius|fahrenheit|摄氏度|度))?)"
    r"\s+below\s+(?:zero|freezing|0)(?![A-Za-z0-9_.])",
    re.IGNORECASE,
)
_SCALE_EN = re.compile(
    r"(?<=\d)(\s?)(?:°|degrees?|deg\.?)\s*\(?\s*(fahrenheit|celsius|centigrade|kelvin|[fc])(?![A-Za-z0-9])\)?",
    re.IGNORECASE,
)
_SCALE_ZH = re.compile(r"(?<=\d)(\s?)度\s*\(?\s*(华氏|摄氏|[FfCc](?![A-Za-z0-9]))(?!度)\)?")
# 37度5 is 37.5度, 1米85 is 1.85米; 26度5档 is neither.
_ENDS_ZH = r"(?=\s*(?:$|[,。;!?)]|左右|以[上下]|的|了))"
_TENTHS_ZH = re.compile(
    rf"(?<![\d.])(\d{{1,4}})(?:(度)([1-9一二三四五六七八九])|(米)([1-9]\d?|[一二三四五六七八九])){_ENDS_ZH}",
    re.MULTILINE,
)
_DIGIT_ZH = {letter: str(value) for value, letter in enumerate("一二三四五六七八九", 1)}
_FAHRENHEIT_ZH = re.compile(rf"(零下|负)?\s*华氏(?:温度)?(?:为|是)?\s*(零下|负|-)?\s*({_AMOUNT})\s*度?(?![\d.]*\d)")
_SCALES = {"f": "°F", "fahrenheit": "°F", "华氏": "°F", "kelvin": "K"}

_MEGA = re.compile(
    r"(?<=\d)(\s?)M(?=(?:[Ww][Hh]?|[Vv][Aa]?|[Aa]|[Jj]|[HFN]|[Bb]ar|[ΩωΩ]|[Oo][Hh][Mm][Ss]?)?(?![A-Za-z0-9]))"
)
_MILLI = re.compile(r"(?<=\d)(\s?)m(?=(?:Pa|Hz)(?![A-Za-z0-9]))")
_BITS = re.compile(r"(?<=\d)(\s?[kKMGT])b(?![A-Za-z0-9])")
_BYTES = re.compile(r"(?<=\d)(\s?[kKMGT]i?)B(?=ps(?![a-z])|/s)")
# Newton metres are no nanometres, millisiemens no milliseconds.
_NEWTON = re.compile(r"(?<=\d)(\s?k?)N(?=m(?![A-Za-z0-9]))")
_SIEMENS = re.compile(r"(?<=\d)(\s?[mµμ])S(?![A-Za-z0-9])")
# 300k is 300000; 3000k is mostly a colour's temperature, 4k a picture's size.
_KELVIN = re.compile(r"(?<![\d.])(\d{2,3}(?:\.\d{1,9})?\s?)K(?![A-Za-z0-9])")

NUMBER_LEFT = (
    rf"(?:(?<![A-Za-z0-9_.^±{SUM_MARK}])|(?<=\b[Nn]o\.)|(?<=\bNO\.))(?<![0-9][:/·])(?<![A-Za-z]/)(?<!-[$€£¥])(?<!分之)(?<!时速)"
    "(?<![0-9][,'](?=[0-9]{3}(?![0-9])))"
    "(?<![0-9]{4}-(?=[0-9]{1,2}-[0-9]))(?<![0-9]{4}-[0-9]-)(?<![0-9]{4}-[0-9]{2}-)"
)
"""What stands before a number that is not the end of an identifier, a time, a date, a fraction or a longer number."""

NUMBER_RIGHT = (
    r"(?![0-9_]|[.:/][0-9]|[,'][0-9]{3}(?![0-9])|[A-Za-z]+[0-9]|[eE][+-][0-9]|(?<![0-9]{4})[kK](?![A-Za-z])|\+(?![0-9])|\s?[·^]|(?:st|nd|rd|th)(?![A-Za-z]))"
    r"(?!\s?(?:(?:[十万亿多几余]|百(?!帕))|来[个度天分米公小]|分之|千(?![克瓦米卡伏赫帕焦])|(?:hundred|thousand|million|billion)s?(?![a-z])))"
    r"(?!\s?(?:°[CcFf]?|摄氏度|[度个天米斤倍层]|公里|公斤|小时|分钟|degrees?)?\s?(?:半(?!小时|天|夜|个|分)|and\sa\s(?:half|quarter)|(?:and\s)?[0-9]+/[0-9]))"
)
"""What stands behind a number that is not the beginning of one: 5 is not in 5,000, 5.2, 5:30, 5万 or 5 million."""

NO_TIME = (
    r"(?!\s?(?:[AaPp]\.?[Mm](?![A-Za-z])|o'clock|[点點]"
    r"|(?:(?<=(?<![0-9.])[1-9] )|(?<=(?<![0-9.])1[0-2] ))in\sthe\s(?:early\s|late\s)?(?:morning|afternoon|evening)))"
)
"""What stands behind a number that is no hour: 5 is not in 5 pm, 5 in the morning and 5点半."""

UNIT_RIGHT = (
    rf"(?!{SUM_MARK}|\s?(?:/|[·^*]|per\s|(?:an?|each|every)\s(?:second|minute|hour|day)|每|的时速|半(?!小时|天|夜)|又|and\sa\s(?:half|quarter)|电))"
    r"(?!\s?(?:[二两三四五六七八九]|一(?![直定下些起般样旦个])|(?<=[安瓦伏])时|(?<=伏)安))"
)
"""What stands behind a unit that is whole: 5 km is not in 5 km/h, 2 h not in 2 h 30 min, 5度 not in 5度电, 1 m not in
1米八."""

_LADDERS = (
    (
        "days?|天|日", "hours?|hrs?|h|个?小时|个?钟头", "minutes?|mins?|min|分钟|分", "seconds?|secs?|s|秒钟?",
        "milliseconds|ms|毫秒",
    ),
    ("tonnes?|t|吨", "kilograms?|kilos?|kg|公斤|千克", "grams?|g|克", "milligrams?|mg|毫克"),
    (
        "kilomet(?:re|er)s?|km|公里|千米", "met(?:re|er)s?|m|米", "centimet(?:re|er)s?|cm|厘米",
        "millimet(?:re|er)s?|mm|毫米",
    ),
    ("lit(?:re|er)s?|l|升", "millilit(?:re|er)s?|ml|毫升"),
)  # fmt: skip
_NEXT = r"(?P<gap>,?\s?(?:and\s|又|零|外加)?)"
_SUMS = tuple(
    re.compile(
        rf"(?<=\d)(\s?(?:{unit})){_NEXT}(?={_AMOUNT}\s?(?:{'|'.join(ladder[i + 1 :])})(?![A-Za-z0-9/]))", re.IGNORECASE
    )
    for ladder in _LADDERS
    for i, unit in enumerate(ladder[:-1])
)
# An hour and a half may be written 1 h 30.
_BARE_SUM = re.compile(r"(?<=\d)(\s?(?:hours?|hrs?|h|个?小时))(?P<gap>\s?)(?=\d{1,2}(?![\d.:]))", re.IGNORECASE)
_RATE = re.compile(
    rf"(?:每(?P<of>秒钟?|分钟?|小时|时)|(?P<speed>时速)(?:约|为|是|达)?)\s?"
    rf"(?P<amount>{_AMOUNT}\s?(?P<unit>[A-Za-z]{{1,4}}(?![A-Za-z])|公里|千米|毫米|厘米|米|毫升|升|转|帧|次|千克|公斤|克|吨))(?!\s?[/每])"
)
_PER = {"秒钟": "秒", "分": "分钟", "时": "小时", None: "小时"}


def plain(text: str) -> str:
    """The text with one form for what looks alike (NFKC, dashes, rows of blanks) and without what has no shape.

    Capitals stay, so do line ends; a weekday stands apart from the hour behind it (周一 八点), an exponent from what it
    raises (10^2).
    """
    text = _TIMES_SIGN.sub("x", _RAISED.sub(r"^\g<0>", _INVISIBLE.sub("", text).translate(_SQUARES)))
    text = unicodedata.normalize("NFKC", text).translate(_MARKS)
    text = _SQUARE_M.sub(r"\1^\2", text)
    # One blank for a row of them, lest patterns with several rows try every way to share it out.
    return _WEEKDAY.sub(r"\1 ", _BLANKS.sub(_one_blank, text))


def with_signs(text: str) -> str:
    """A plain text with its numbers written one way.

    A minus in words is a sign: 零下5度, 负5, minus 5, 5 below zero. Degrees of Fahrenheit and Celsius have their mark
    behind the number: 华氏72度, 72 degrees F. Items of an array stand apart: [5,120] is no 5120. What may be one number
    in groups, 5 000, is held together by marks, and so are sums (``SUM_MARK``). 每小时5公里 is 5公里/小时, 37度5 is
    37.5度, 1米8 is 1.8米.
    """
    text = _ARRAY.sub(_apart, text)
    text = _SPACED_GROUPS.sub(lambda match: match[0].replace(" ", "'"), text)
    text = _TENTHS_ZH.sub(_with_tenths, text)
    text = _FAHRENHEIT_ZH.sub(lambda match: f"{'-' if match[1] or match[2] else ''}{match[3]}°F", text)
    text = _SCALE_ZH.sub(_with_scale, _SCALE_EN.sub(_with_scale, text))
    text = _MINUS_EN.sub("-", _MINUS_ZH.sub("-", text))
    text = _RATE.sub(_as_rate, _BELOW_ZERO.sub(r"-\1", text))
    for pattern in _SUMS:
        text = pattern.sub(_as_sum, text)
    return _BARE_SUM.sub(_as_sum, text)


def with_case_marks(text: str) -> str:
    """The text with a mark behind prefixes whose capital counts, so that 5 MW is no 5 mW without its capitals either.

    M before W, V, A, J, H, F, N, bar, Wh, ohm and alone; m before Pa and Hz, which stand for mega in small letters,
    too; b for bits, and bytes a second as a word; N of Nm, S of mS; K behind a number of two or three digits.
    """
    text = _MEGA.sub(rf"\1M{CASE_MARK}", _MILLI.sub(rf"\1m{CASE_MARK}", text))
    text = _BYTES.sub(r"\1byte", _BITS.sub(rf"\1b{CASE_MARK}", text))
    text = _SIEMENS.sub(rf"\1S{CASE_MARK}", _NEWTON.sub(rf"\1N{CASE_MARK}", text))
    return _KELVIN.sub(rf"\1K{CASE_MARK}", text)


def says_something(text: str) -> bool:
    """Whether a text has a letter or a digit; marks, damage and what has no shape are none."""
    return any(unicodedata.category(letter)[0] in "LN" for letter in plain(text))


def _one_blank(match: re.Match[str]) -> str:
    return "\n" if "\n" in match[0] else " "


def _as_sum(match: re.Match[str]) -> str:
    return f"{match[1]}{SUM_MARK}{match['gap']}{SUM_MARK}"


def _as_rate(match: re.Match[str]) -> str:
    return f"{match['amount']}/{_PER.get(match['of'], match['of'])}"


def _apart(match: re.Match[str]) -> str:
    try:
        json.loads(match[0])
    except ValueError:
        return match[0]
    return _COMMA.sub(lambda comma: ", " if comma[0] == "," else comma[0], match[0])


def _with_tenths(match: re.Match[str]) -> str:
    digits = match[3] or match[5]
    return f"{match[1]}.{_DIGIT_ZH.get(digits, digits)}{match[2] or match[4]}"


def _with_scale(match: re.Match[str]) -> str:
    return match[1] + _SCALES.get(match[2].casefold(), "°C")
