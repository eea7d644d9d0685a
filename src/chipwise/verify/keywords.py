"""Keyword fidelity: whether an answer reproduces every entity it must, in English and Chinese."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import lru_cache

from chipwise.verify.scoring.clock import readings
from chipwise.verify.scoring.numeral_edges import numeral_edges
from chipwise.verify.scoring.written import (
    CASE_MARK,
    NO_TIME,
    NUMBER_LEFT,
    NUMBER_RIGHT,
    SUM_MARK,
    UNIT_RIGHT,
    plain,
    with_case_marks,
    with_signs,
)

_CJK = "\u3400-\u9fff"
# What words are written with; letters beyond English ones, too: caf is not in café.
_LETTER = "a-z0-9_\u00df-\u024f\u0370-\u03ff\u0400-\u04ff"
# Behind what may go on as a longer unit: 5个 is not in 5个小时.
_RIGHT_EDGES = {"°": r"(?!\s?[cfk]?/)", "个": "(?!小时|钟头|百分点|月|星期)", "分": "(?![贝米克])"}
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_ADDRESS = re.compile(r"(?:\d{1,3}\.){3}\d{1,3}")

# Entities of a free text, most specific first: a time is no number, an identifier's digits are none either.
_UNITS = (
    "ms|s|minutes?|mins?|hours?|seconds?|days?|min|h|hz|khz|mhz|ghz|mv|v|ma|a|kwh|kw|mw|w|mm|cm|km|m|kg|mg|g|ml|l|bar|kpa|mpa|pa|psi|rpm|db|fps|lux|nm|c|f|k"
    "|摄氏度|华氏度|度|毫秒|秒|分钟|分|小时|天|毫米|厘米|公里|米|公斤|千克|克|毫升|升|伏|安|千瓦|瓦|转|帧|次|万|亿"
)
_ENTITY = re.compile(
    r"\d{4}-\d{2}-\d{2}"  # dates
    r"|(?:凌晨|早上|上午|中午|下午|傍晚|晚上)?\d{1,2}:\d{2}(?::\d{2})?(?:\s?[ap]\.?m(?![a-z]))?"  # times
    r"|(?<![a-z0-9_])[a-z][a-z_]*-?\d[a-z0-9_]*(?:-[a-z0-9]*\d[a-z0-9]*)*"  # E123, cam-12, light-0042
    r"|(?<![a-z0-9.:_])-?(?:[1-9]\d{0,2}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?"  # 26, -5, 5,000
    rf"(?:\s?(?:%|°[cf]?|(?:{_UNITS})(?![a-z0-9]))(?:/(?:h|s|min|秒|分钟|小时)(?![a-z]))?)?"  # 22.5 °C, 30%, 5 km/h
    rf"(?:{SUM_MARK}[^{SUM_MARK}]{{0,6}}{SUM_MARK}\d+(?:\.\d+)?(?:\s?(?:{_UNITS})(?![a-z0-9]))?){{0,4}}"  # 1 h 30 min
    r"|(?<=[\"“「『])(?P<quoted>[^\"”」』\n]{1,80})(?=[\"”」』])"  # what is quoted
)

_LONGER_LEFT = r"(?<![0-9][.:])(?<![0-9]{4}-)(?<![0-9]{4}-[0-9]{2}-)(?<![0-9][,'](?=[0-9]{3}(?![0-9])))"

_RANGE = re.compile(r"\s?(?:-|~|to|到|至)\s?")

# A quantity: sign, whole part, fraction, unit.
_QUANTITY = re.compile(r"(-?)(0|[1-9]\d*)(\.\d+)?(?:\s?([^\d\s:/_.,\-][^\d:]*))?")


def normalise(text: str) -> str:
    """The text with full-width forms, case, dashes and runs of white space made equal (NFKC, case folding), and
    without characters that have no shape.
    """  # noqa: D205
    return " ".join(plain(text).casefold().split())


def missing_keywords(keywords: Iterable[str], answer: str) -> tuple[str, ...]:
    """The keywords that an answer does not reproduce.

    Width, case and the spaces between a number and its unit or around Chinese characters do not matter; 26 and 26.0
    are the same. A keyword inside a longer number, word or identifier does not count: 5 is not in 25, -5, 5.2, 5:30,
    5,000, 5万, 5 pm or 零下5度, ``on`` not in ``none``, ``light`` not in ``light-0042``. Of units the case counts where
    it makes another unit: 5 MW is no 5 mW.
    """
    words, numbers = normalise(answer), _with_numbers(answer)
    return tuple(
        keyword for keyword in keywords if not _pattern(keyword).search(numbers if _has_digit(keyword) else words)
    )


def as_compared(text: str) -> str:
    """The text normalised; one with digits with its numbers written one way, too."""
    return _with_numbers(text) if _has_digit(text) else normalise(text)


def _has_digit(text: str) -> bool:
    return any(letter.isdigit() for letter in plain(text))


@lru_cache(maxsize=512)
def _with_numbers(text: str) -> str:
    """The text, normalised, with its numbers written one way."""
    return " ".join(with_case_marks(with_signs(" ".join(plain(text).split()))).casefold().split())


def entities(expected: str) -> tuple[str, ...]:
    """The keywords of an expected answer that names none: a JSON answer's values; else identifiers, times, numbers
    with their units, and what is quoted, as far as the answer itself counts as reproducing it.
    """  # noqa: D205
    try:
        scalars = list(_scalars(json.loads(expected)))
    except (ValueError, RecursionError):
        scalars = []
    if expected.lstrip().startswith(("{", "[")) and scalars:
        return tuple(dict.fromkeys(scalars))
    # A pair of quotes may hold nothing but a space.
    candidates = dict.fromkeys(word for word in _found(normalise(with_signs(plain(expected)))) if word)
    # The 2 of "2x4" is part of something longer: no answer would be right, not even the expected one.
    beyond = set(missing_keywords(candidates, expected))
    return tuple(entity.replace(SUM_MARK, "") for entity in candidates if entity not in beyond)


def _found(text: str) -> Iterator[str]:
    """Entities of a normalised text in order; a time with the part of the day that says which it is."""
    times = readings(text)
    placed = [(time.start, text[time.start : time.end]) for time in times if time.seconds is not None]
    ends = [time.end for time in times]
    starts = {time.start for time in times}
    for match in _ENTITY.finditer(text):
        after = bisect_right(ends, match.start())
        inside = after < len(times) and times[after].start < match.end()
        to = _RANGE.match(text, match.end())
        if to and to.end() in starts:
            # The 6 of "6-7 pm" is an hour, too; an answer may say it as 6 pm or 18:00.
            continue
        # What looks like a time and is none where it stands, such as the 1:02 of 1:02:03:04, is nothing to reproduce.
        if match["quoted"] or not (inside or readings(match.group())):
            placed.append((match.start(), match.group().strip()))
    return (word for _, word in sorted(placed))


def _scalars(value: object) -> Iterable[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _scalars(item)
    elif isinstance(value, str):
        # An empty string would be found in every answer.
        yield from [value] if value.strip() else []
    else:
        yield json.dumps(value)


@lru_cache(maxsize=4096)
def _pattern(keyword: str) -> re.Pattern[str]:
    text = as_compared(keyword)
    quantity = _QUANTITY.fullmatch(text)
    return re.compile(_quantity_pattern(*quantity.groups()) if quantity else _literal_pattern(text))


def _quantity_pattern(sign: str, whole: str, fraction: str | None, unit: str | None) -> str:
    # Not after a minus that is a sign or an identifier's; after "20-" it is the end of a range.
    left = NUMBER_LEFT + (r"(?<!(?<![0-9])-)" if not sign else "")
    digits = (fraction or "").rstrip("0").rstrip(".")
    # .5 is 0.5.
    ones = f"{re.escape(sign)}0?" if whole == "0" and digits else re.escape(sign + whole)
    number = ones + (re.escape(digits) + "0*" if digits else r"(?:\.0+)?")
    if unit is None:
        # Letters may follow as a unit, but not letters with digits after them, which make an identifier.
        return left + number + NUMBER_RIGHT + NO_TIME
    return left + number + r"\s*" + _spaced(unit) + _right_edge(unit) + UNIT_RIGHT


def _literal_pattern(text: str) -> str:
    left = ""
    if re.match(f"[{_LETTER}]", text):
        left = f"(?<![{_LETTER}])" + (_LONGER_LEFT if text[0].isdigit() else "")
    if (head := re.match("[a-z][a-z_-]*", text)) and _has_digit(text):
        # lamp-1 is not in desk-lamp-1, but Z4 is in Z1-Z4.
        ranges = (f"(?<={re.escape(head[0])}[0-9]{{{count}}}-)" for count in (1, 2, 3, 4))
        left += f"(?:(?<![a-z0-9]-)|{'|'.join(ranges)})"
    if text.startswith("半"):
        # 半小时 is not in 两个半小时 and 大半小时.
        left = "(?<![个大多小])"
    outer, inner = numeral_edges(text)
    return outer + left + _spaced(text) + _right_edge(text) + inner


def _right_edge(text: str) -> str:
    if re.search(r"[0-9]$", text):
        # 07:30 is still said by 07:30:00, a day by its hour, an address by its port; cam-12 is not said by cam-12-3.
        hour = r"(?!t[0-9]{2}:?[0-9]{2})" if _DATE.fullmatch(text) else ""
        port = "" if _ADDRESS.fullmatch(text) else r"|:(?!00)[0-9]"
        return rf"(?!{hour}[{_LETTER}]|\.[0-9]{port}|-[0-9]|[,'][0-9]{{3}}(?![0-9]))"
    if re.search(f"[{_LETTER}]$", text):
        # C is not in C++ and C#, B not in B+.
        return rf"(?![{_LETTER}{CASE_MARK}]|-[a-z]*[0-9]|\+(?!\s?[a-z0-9])|#)"
    return _RIGHT_EDGES.get(text[-1:], "")


def _spaced(text: str) -> str:
    """The escaped text where spaces are optional between a number and what follows and around Chinese characters."""
    pattern = re.escape(text).replace(r"\ ", " ")
    pattern = re.sub(rf"(?<=[{_CJK}]) ?(?=[^ ])|(?<=[^ ]) ?(?=[{_CJK}])", r"\\s*", pattern)
    pattern = re.sub(r"(?<=[0-9]) ?(?=[a-z%°])", r"\\s*", pattern)
    return pattern.replace(" ", r"\s+")
