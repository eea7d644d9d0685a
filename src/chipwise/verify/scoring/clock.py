"""Times of day in a text, in English and Chinese, as seconds since midnight."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from chipwise.verify.scoring.day_part import DayPart, day_parts
from chipwise.verify.scoring.numerals import RUN, chinese_number
from chipwise.verify.scoring.written import plain

_HALF = r"\(?(?P<half>a\.m\.?|p\.m\.?|am|pm)(?![a-z])"
# No hour and no minute has more characters; without a limit long rows of them would cost their square.
_SHORT_RUN = f"(?<!{RUN[:-1]}){RUN[:-1]}{{1,3}}(?!{RUN[:-1]})"
_PARTS = {"半": 30, "一刻": 15, "三刻": 45, "整": 0, "钟": 0, "": 0}
_TO = r"(?:(?<=at )|(?<=by )|(?<=from )|(?<=till )|(?<=until )|(?<=around )|(?<=about ))"

_FORMS = (
    re.compile(
        rf"(?<![\d.:/])(?<!\+)(?<!:\d\d:\d\d-)(?P<hour>\d{{1,2}}):(?P<minute>\d{{2}})(?::(?P<second>\d{{2}}))?(?!:?\d|\.\d)(?:\s*{_HALF})?"
    ),
    re.compile(rf"(?<![\d.:])(?P<hour>\d{{1,2}})\.(?P<minute>[0-5]\d)\s*{_HALF}"),
    # Behind a dash it is an hour after one: 9-5 pm, 9am-5pm.
    re.compile(rf"(?<![\d.:a-z_])(?<!(?<!\d)(?<![ap]m)(?<![ap]\.m\.)-)(?P<hour>\d{{1,2}})\s*{_HALF}"),
    re.compile(
        rf"(?<![\d.:第])(?P<hour>\d{{1,2}}|{_SHORT_RUN})\s?[点時时]"
        rf"(?P<part>半|一刻|三刻|整|钟|\s?(?P<minute>零?\d{{1,2}}|{_SHORT_RUN})分(?!之)|"
        # Without 分 a minute has two characters, and no unit behind it: 三点五度 and 三点一四 are numbers.
        rf"\s?(?P<bare>\d{{2}}(?!\d)|[零〇][一二三四五六七八九]|[二三四五]?十[一二三四五六七八九]?)(?!\s?[度米克升公千毫厘%倍]|{RUN[:-1]})"
        rf"|(?!\s?(?:\d|{RUN[:-1]}|儿)))"
    ),
    re.compile(rf"(?<![\d.:a-z_-])(?P<hour>\d{{1,2}})\s?o'clock(?:\s{_HALF})?"),
    re.compile(
        r"(?:^|(?<=[(,:.;!?]\s)|(?<=[(\n])|(?<=for )|(?<=is )|(?<=it's )|(?<=to ))(?P<alone>\d{1,2})"
        r"(?=\s(?:tonight|at\snight|(?:in\sthe|this|tomorrow)\s(?:morning|afternoon|evening))(?![a-z_-]))"
    ),
    # An hour alone counts only beside a part of the day.
    re.compile(rf"{_TO}(?P<alone>\d{{1,2}})(?=\s*(?:o'clock\s*)?,?\s*(?:[a-z,;!?)]|\.(?!\d)|$))"),
    re.compile(
        r"(?<!before )(?<!after )(?<![a-z_])(?:12(?::00)?\s*)?(?P<word>noon|midnight)(?![a-z_])"
        rf"|(?P<word_zh>正午|午夜)(?:时分)?(?!\s?[\d场前后过的]|{RUN[:-1]})"
    ),
)
_WORDS = {"noon": 12, "正午": 12, "midnight": 0, "午夜": 0}

_GAP_BEFORE = re.compile(r"[\s,的、:]*(?P<at>(?:at|by|from|around|about|在|于|约|大约|大概|@)\s*)?")
_GAP_AFTER = re.compile(r"\s*(?:o'clock)?[\s,(]*(?:on\s)?")
_GAP_LIST = re.compile(
    r"^[^,;。，到至\d]{0,16}?\s*(?:到|至|-|~|to|until|till|and|or|和|与|或|、|,)\s*(?:at\s|about\s)?$"
)
_BREAK = re.compile(r'[!?;。\n{}\[\]"“”]|\.(?=\s|$)')
# 差五分七点 and "quarter to 8 pm" are other times than the hour they name.
_OFF_BEFORE = re.compile(
    r"(?:差\S{1,3}[分刻]钟?|(?:half|quarter|five|ten|twenty|twenty-five|minutes?|mins?|\d\s?past)(?:\s(?:past|to|before|after|of|till))?)\s?$"
    # Five to seven is before seven, six to seven is not.
    r"|(?<!from )(?<!\d)(?:5|10|15|20|25)\sto\s$"
)
# 温度高于20时 is "when it is above 20"; 晚于20时 and 将于20时 name a time.
_LIMIT_BEFORE = re.compile(
    r"(?:(?:[高低大小等多少]于|超过|不到|不足|不满|达到|[<>≤≥=])(?:或等于)?(?:大?约)?"
    r"|(?:[室水气油体]温|温度|湿度|亮度|照度|浓度|[水液]位|电量|音量|[车转流风]速|速度|电压|电流|功率|流量|压力|气压|读数|数值)"
    r"值?(?:已|刚好?|正好|恰好)?(?:为|是|到|达|至|[升降]到|[升降]至|上升[到至]|下降[到至]|变[为成])?)\s?$"
)
_OFF_AFTER = re.compile(r"\s?(?:[差过欠缺多几]|来钟|钟?方向)")
_BARE_PARTS = ("morning", "afternoon", "evening", "night")
_NOUN_AFTER = re.compile(r"\s(?!(?:and|or|to|until|till|for|on|at|in|with|then|every|tomorrow|today)(?![a-z]))[a-z]")
_LOOK_BACK = 24
_LONGEST = 60


@dataclass(frozen=True)
class Reading:
    """A time of day in a text.

    Attributes:
        seconds: Since midnight; None if two times may be meant, or it is none.
        start: Where it begins, the part of the day that belongs to it included.
        end: Where it ends.
    """

    seconds: int | None
    start: int
    end: int


@dataclass(frozen=True)
class _Said:
    """An hour as it is written, and where."""

    hour: int
    after_hour_s: int
    start: int
    end: int
    halves: tuple[DayPart, ...]
    needs_part: bool
    of_24: bool


def times_in(text: str) -> tuple[int, ...]:
    """The times of day that a text names, in seconds since midnight, in their order.

    ``7:30 pm``, ``7 pm``, ``19:30:00``, ``下午7点半``, ``十九点三十分``, ``tonight at 7:30``. An hour without a part of
    the day is the hour of a clock with 24 hours: 7:30 is not 19:30. Where a part of the day in the same sentence leaves
    open which is meant, the time is none.
    """
    return tuple(dict.fromkeys(r.seconds for r in readings(plain(text).casefold()) if r.seconds is not None))


def time_of(text: str) -> int | None:
    """The time of day that a whole text is; None if it is none, or more than one."""
    folded = plain(text).casefold().strip()
    if len(folded) > _LONGEST:
        return None
    for lead in ("", "at "):
        found = readings(lead + folded)
        if len(found) == 1 and (lead + folded)[found[0].end :] == "" and found[0].start in (0, len(lead)):
            return found[0].seconds
    return None


@lru_cache(maxsize=512)
def readings(text: str) -> tuple[Reading, ...]:
    """The times of day of a text in small letters (``written.plain``), those that are unclear too."""
    said, parts = _said(text), day_parts(text)
    own = _attach(text, said, parts)
    taken = {part for attached in own for part in attached}
    breaks = [match.start() for match in _BREAK.finditer(text)]
    loose: dict[int, dict[str, DayPart]] = {}
    for part in parts:
        if part not in taken:
            loose.setdefault(bisect_left(breaks, part.start), {})[part.kind] = part
    found: list[Reading] = []
    earlier: dict[str, DayPart] = {}
    sentence = -1
    for i, one in enumerate(said):
        here = bisect_left(breaks, one.start)
        if here != sentence:
            sentence, earlier = here, {}
        if own[i]:
            hour = _agreed(one, own[i])
            earlier |= {part.kind: part for part in own[i]}
        elif one.needs_part:
            continue
        else:
            following = own[i + 1] if i + 1 < len(said) and _listed(text, one, said[i + 1]) else ()
            lists = i and own[i - 1] and not said[i - 1].halves and _listed(text, said[i - 1], one)
            before = found[-1] if lists else None
            hour = _without_part(one, earlier, [*loose.get(here, {}).values(), *following], before)
        seconds = None if hour is None else hour % 24 * 3600 + one.after_hour_s
        edges = [one.start, one.end, *(edge for part in own[i] for edge in (part.start, part.end))]
        found.append(Reading(seconds, min(edges), max(edges)))
    return tuple(found)


def _agreed(one: _Said, parts: Sequence[DayPart]) -> int | None:
    """The hour that all its parts of the day make of an hour."""
    hours = {part.hour(one.hour) for part in parts}
    return hours.pop() if len(hours) == 1 else None


def _without_part(
    one: _Said, earlier: Mapping[str, DayPart], around: Sequence[DayPart], before: Reading | None
) -> int | None:
    """The hour of a time with no part of the day of its own: what is written, unless the sentence says otherwise."""
    if one.of_24:
        return one.hour
    told = {part.hour(one.hour) for part in (*earlier.values(), *around)} - {one.hour}
    if not told:
        # 早上8点到1点 ends after noon, or on another day.
        early = before is not None and before.seconds is not None
        return None if before and early and (before.seconds or 0) >= one.hour * 3600 + one.after_hour_s else one.hour
    anchors = [part for part in around if part.anchored and part.start < one.start]
    if len(told) != 1 or None in told:
        return None
    (hour,) = told
    if before is not None and before.seconds is not None and hour is not None:
        # The end of 今晚七点到八点; 今晚十点到六点 ends on another day.
        return hour if before.seconds < hour * 3600 + one.after_hour_s else None
    return hour if anchors and not earlier else None


def _listed(text: str, one: _Said, other: _Said) -> bool:
    return other.start - one.end <= _LOOK_BACK and _GAP_LIST.search(text[one.end : other.start]) is not None


def _attach(text: str, said: Sequence[_Said], parts: Sequence[DayPart]) -> list[tuple[DayPart, ...]]:
    """The parts of the day that stand beside each time: am and pm, before it, or behind it in English."""
    own: list[tuple[DayPart, ...]] = [one.halves for one in said]
    starts, ends = [one.start for one in said], [one.end for one in said]
    for part in parts:
        after = bisect_left(starts, part.end)
        gap = text[part.end : starts[after]] if after < len(said) and starts[after] - part.end <= _LOOK_BACK else None
        leads = _GAP_BEFORE.fullmatch(gap) if gap is not None else None
        behind = bisect_right(ends, part.start) - 1
        follows = False
        if not part.chinese and behind >= 0 and part.start - ends[behind] <= _LOOK_BACK:
            follows = _GAP_AFTER.fullmatch(text[ends[behind] : part.start]) is not None
        if follows and _NOUN_AFTER.match(text, part.end) and text[part.start : part.end] in _BARE_PARTS:
            # The night of "at 8:00 night mode" may be the mode's.
            part = replace(part, kind="unclear")
        if leads and (leads["at"] or not follows):
            own[after] = (*own[after], part)
        elif follows:
            own[behind] = (*own[behind], part)
    return own


def _said(text: str) -> list[_Said]:
    """The hours that a text writes, in order, none inside another."""
    matches = sorted((m for form in _FORMS for m in form.finditer(text)), key=lambda m: (m.start(), -m.end()))
    found: list[_Said] = []
    for match in matches:
        if (not found or match.start() >= found[-1].end) and (one := _read(match, text)) is not None:
            found.append(one)
    return found


def _read(match: re.Match[str], text: str) -> _Said | None:
    groups = match.groupdict()
    word = groups.get("word") or groups.get("word_zh")
    if word:
        return _Said(_WORDS[word], 0, match.start(), match.end(), (), needs_part=False, of_24=True)
    written = groups.get("hour") or groups.get("alone") or ""
    hour = _number(written)
    part = groups.get("part")
    minute = _PARTS[part] if part in _PARTS else _number(groups.get("minute") or groups.get("bare") or "0")
    second = _number(groups.get("second") or "0")
    if hour is None or minute is None or second is None or hour > 24 or minute > 59 or second > 59:
        return None
    if _OFF_BEFORE.search(text, max(0, match.start() - _LOOK_BACK), match.start()) or (
        part is not None and _OFF_AFTER.match(text, match.end())
    ):
        return None
    if (
        part == ""
        and match[0].endswith(("时", "時"))
        and _LIMIT_BEFORE.search(text, max(0, match.start() - _LOOK_BACK), match.start())
    ):
        return None
    half = (groups.get("half") or "")[:1]
    halves = (DayPart(f"{half}m", match.start(), match.end()),) if half else ()
    # 一点 alone is "a bit".
    needs_part = "alone" in groups or (part == "" and written == "一")
    of_24 = hour > 12 or written.startswith("0")
    return _Said(hour, minute * 60 + second, match.start(), match.end(), halves, needs_part, of_24)


def _number(text: str) -> int | None:
    if text.isdecimal():
        return int(text)
    if text[:1] == "零" and text[1:].isdecimal():
        return int(text[1:])
    if len(text) > 1 and "十" not in text and text[0] not in "零〇":
        # An hour of two digits is said with 十.
        return None
    value = chinese_number(text)
    return int(value) if value is not None and value.isdecimal() and len(value) <= 2 else None
