"""Times of day in a text, in English and Chinese, as seconds since midnight."""

from __future__ import annotations

import re
import unicodedata

from chipwise.verify.scoring.numerals import RUN, chinese_number

_MORNING = ("凌晨", "早上", "早晨", "清晨", "上午", "a.m.", "am", "a.m")
_EVENING = ("下午", "傍晚", "晚上", "夜里", "p.m.", "pm", "p.m")
_NOON = ("中午",)
_BEFORE = "|".join((*_MORNING[:5], *_EVENING[:4], *_NOON))
_AFTER = r"a\.m\.?|p\.m\.?|am|pm"
# No hour and no minute has more characters; without a limit long rows of them would cost their square.
_SHORT_RUN = f"(?<!{RUN[:-1]}){RUN[:-1]}{{1,3}}(?!{RUN[:-1]})"
_PARTS = {"半": 30, "一刻": 15, "三刻": 45, "整": 0, "钟": 0, "": 0}

_DIGITAL = re.compile(
    rf"(?:(?P<before>{_BEFORE})\s*)?(?<![\d.:])(?P<hour>\d{{1,2}}):(?P<minute>\d{{2}})(?::(?P<second>\d{{2}}))?"
    rf"(?![\d:]|\.\d)(?:\s*(?P<after>{_AFTER})(?![a-z]))?"
)
_HOUR_ONLY = re.compile(rf"(?<![\d.:a-z_-])(?P<hour>\d{{1,2}})\s*(?P<after>{_AFTER})(?![a-z])")
_SPOKEN = re.compile(
    rf"(?:(?P<before>{_BEFORE})\s*)?(?<![\d.:])(?P<hour>\d{{1,2}}|{_SHORT_RUN})\s?[点時时]"
    rf"(?P<part>半|一刻|三刻|整|钟|\s?(?P<minute>\d{{1,2}}|{_SHORT_RUN})分?|)"
)


def times_in(text: str) -> tuple[int, ...]:
    """The times of day that a text names, in seconds since midnight, in the order of the forms they have.

    ``7:30 pm``, ``7 pm``, ``19:30:00``, ``下午7点半``, ``十九点三十分``. An hour without a part of the day is the hour
    of a clock with 24 hours: 7:30 is not 19:30.
    """
    plain = unicodedata.normalize("NFKC", text).casefold()
    found = (_time(match) for form in (_DIGITAL, _HOUR_ONLY, _SPOKEN) for match in form.finditer(plain))
    return tuple(dict.fromkeys(time for time in found if time is not None))


def time_of(text: str) -> int | None:
    """The time of day that a whole text is; None if it is none, or more than one."""
    plain = unicodedata.normalize("NFKC", text).casefold().strip()
    for form in (_DIGITAL, _HOUR_ONLY, _SPOKEN):
        match = form.fullmatch(plain)
        if match:
            return _time(match)
    return None


def _time(match: re.Match[str]) -> int | None:
    groups = match.groupdict()
    hour = _number(groups["hour"])
    part = groups.get("part")
    minute = _PARTS[part] if part in _PARTS else _number(groups.get("minute") or "0")
    second = _number(groups.get("second") or "0")
    of_day = groups.get("before") or groups.get("after") or ""
    if hour is None or minute is None or second is None or hour > 24 or minute > 59 or second > 59:
        return None
    if of_day and hour > 12 and of_day in _MORNING:
        return None
    return (_on_24(hour, of_day) * 60 + minute) * 60 + second


def _on_24(hour: int, of_day: str) -> int:
    if (of_day in _EVENING and hour < 12) or (of_day in _NOON and hour < 3):
        hour += 12
    elif hour == 12 and (of_day in _MORNING or of_day in ("晚上", "夜里")):
        hour = 0
    return hour % 24


def _number(text: str) -> int | None:
    if text.isdecimal():
        return int(text)
    value = chinese_number(text)
    return int(value) if value is not None and value.isdecimal() and len(value) <= 2 else None
