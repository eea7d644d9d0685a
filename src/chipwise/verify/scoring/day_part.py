"""Parts of a day, in English and Chinese: which hour of 24 an hour is that is said with one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


def _later(first: int, last: int) -> dict[int, int]:
    """Hours after noon, said either way."""
    return {hour: hour + 12 for hour in range(first, last + 1)} | {hour: hour for hour in range(first + 12, last + 13)}


def _as_said(first: int, last: int) -> dict[int, int]:
    return {hour: hour for hour in range(first, last + 1)}


_MIDNIGHT = {0: 0, 12: 0, 24: 0}
_HOURS: dict[str, Mapping[int, int]] = {
    "am": _as_said(1, 11) | {0: 0, 12: 0},
    "pm": _later(1, 11) | {12: 12},
    "morning": _as_said(1, 11),
    "small hours": _as_said(1, 6) | _MIDNIGHT,
    "noon": {11: 11, 12: 12, 1: 13, 2: 14, 13: 13, 14: 14},
    "dusk": _later(4, 8),
    "evening": _later(4, 11),
    "night": _MIDNIGHT | _as_said(1, 3) | _later(5, 11),
    "late": _MIDNIGHT | _as_said(1, 5) | _later(7, 11),
    "midnight": _MIDNIGHT,
    "unclear": _as_said(13, 23) | {0: 0},
}  # fmt: skip

_DAY_ZH = "(?:今天|明天|昨天|后天|当天|今日|明日|昨日|每天|每日|周[一二三四五六日天])"
_ZH = {
    "small hours": "凌晨",
    "morning": "大清早|早上|早晨|清晨|清早|上午|早间|午前|[今明昨]早|一早",
    "noon": "中午|正午",
    "pm": "下午|午后",
    "dusk": "傍晚|黄昏",
    "night": "晚上|晚间|夜晚|[今明昨当后每]晚|[今明昨]夜",
    "late": "夜里|夜间|深夜|大?后?半夜|夜半|午夜",
}
# A single character is a part of the day only right before an hour; 最晚7点 is the latest, not the evening.
_ZH_ALONE = {"morning": "早", "night": "晚"}
_EN = {"morning": "morning", "pm": "afternoon", "evening": "evening", "night": "night"}
_DAY_EN = r"(?:this|tomorrow|yesterday|last|every|each|(?:mon|tues|wednes|thurs|fri|satur|sun)day)"
_ALONE_HOUR = "(?=[0-9零一二三四五六七八九十两])"

_WORD = re.compile(
    "|".join(
        [f"(?P<zh_{kind.replace(' ', '_')}>{_DAY_ZH}?(?:的)?(?:{words}))" for kind, words in _ZH.items()]
        + [f"(?<![最提])(?P<one_{kind}>{word}){_ALONE_HOUR}" for kind, word in _ZH_ALONE.items()]
        + [r"(?<![a-z_])(?P<en_small_hours>(?:in\sthe\s)?small\shours)(?![a-z_])"]
        + [r"(?<![a-z_])(?P<tonight>tonight)(?![a-z_])", r"(?<![a-z_])(?P<midnight>at\smidnight)(?![a-z_])"]
        + [
            rf"(?<![a-z_])(?P<en_{kind}>(?:in\sthe\s(?:early\s|late\s)?|at\s|{_DAY_EN}\s|late\s|early\s)?{word})(?![a-z_-])"
            for kind, word in _EN.items()
        ]
    )
)
_ANCHOR = re.compile(f"{_DAY_ZH}|[今明昨当后每][早晚夜]|tonight|{_DAY_EN}\\s")


@dataclass(frozen=True)
class DayPart:
    """A part of a day that a text names.

    Attributes:
        kind: What it is: ``am``, ``pm``, ``morning``, ``night``, ...
        start: Where its words begin.
        end: Where they end.
        chinese: Whether they are Chinese, which stand before the hour only.
        anchored: Whether they name a day's part (tonight, 明早) and not only a kind of time (night mode).
    """

    kind: str
    start: int
    end: int
    chinese: bool = False
    anchored: bool = False

    def hour(self, said: int) -> int | None:
        """The hour of 24 that an hour is in this part; None if nobody says that, or both may be meant."""
        return _HOURS[self.kind].get(said)


def day_parts(text: str) -> list[DayPart]:
    """The parts of the day that a text in small letters names, in order."""
    found = []
    for match in _WORD.finditer(text):
        group = match.lastgroup or ""
        head, _, rest = group.partition("_")
        kind = {"tonight": "night", "midnight": "midnight"}.get(group, rest.replace("_", " "))
        found.append(
            DayPart(kind, match.start(), match.end(), head in ("zh", "one"), _ANCHOR.match(match[0]) is not None)
        )
    return found
