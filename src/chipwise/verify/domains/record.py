"""Records: long logs of a domain with one fault near the beginning, which an answer must still know at the end."""

from __future__ import annotations

from dataclasses import dataclass

from chipwise.verify.domains.case import Term
from chipwise.verify.domains.draw import Draw, clock_text
from chipwise.verify.domains.factory import CODE_LETTERS, FAULTS, MACHINES, SUMMARIZE, Entry, finish, log_text

SHORTEST = 4
"""Lines of a record at least; its fault stands in the first quarter."""


@dataclass(frozen=True)
class Things:
    """What a domain's log is about: names of devices, and what may be wrong with them."""

    devices: tuple[str, ...]
    faults: tuple[Term, ...]


THINGS = {
    "factory": Things(MACHINES, FAULTS),
    "home": Things(
        ("LAMP", "VALVE", "PLUG", "METER", "LOCK", "FAN", "BOILER", "SENSOR"),
        (
            Term("leak", "leak", "漏水"),
            Term("overheat", "overheat", "过热"),
            Term("battery_low", "battery low", "电量低"),
            Term("offline", "offline", "离线"),
            Term("jammed", "jammed", "卡住"),
        ),
    ),
    "vehicle": Things(
        ("BRAKE", "TIRE", "CELL", "MOTOR", "RADAR", "DOOR", "LIDAR", "LIGHT"),
        (
            Term("low_pressure", "low pressure", "压力低"),
            Term("overheat", "overheat", "过热"),
            Term("worn", "worn", "磨损"),
            Term("no_signal", "no signal", "无信号"),
            Term("imbalance", "imbalance", "不平衡"),
        ),
    ),
    "camera": Things(
        ("CAM", "NVR", "DOME", "PTZ", "GATE", "IR", "MIC", "DISK"),
        (
            Term("blurred", "blurred", "模糊"),
            Term("covered", "covered", "被遮挡"),
            Term("frozen", "frozen", "画面冻结"),
            Term("disk_full", "disk full", "磁盘已满"),
            Term("moved", "moved", "被移动"),
        ),
    ),
}
"""By domain."""


@dataclass(frozen=True)
class Record:
    """A question with a log below it.

    Attributes:
        text: The question and the lines.
        facts: Device, code and time of the fault, as the log writes them.
        answer: A right answer.
    """

    text: str
    facts: tuple[str, str, str]
    answer: str


def draw_record(draw: Draw, domain: str, lang: str, lines: int) -> Record:
    """A log of one domain in order of time with one fault, no device or time of it named a second time.

    Args:
        draw: The stream of choices.
        domain: A name in THINGS.
        lang: ``en`` or ``zh``.
        lines: Its lines, at least SHORTEST.
    """
    things, count = THINGS[domain], max(SHORTEST, lines)
    place = draw.integer(0, count // 4 - 1)
    # The day may end within a long log, but no time comes twice.
    step = max(1, min(40, 1439 // count))
    minute, entries, taken = draw.minute_of_day(), [], set()
    for index in range(count):
        minute += draw.integer(1, step)
        device = f"{draw.choice(things.devices)}-{draw.digits(3)}"
        while device in taken:
            device = f"{draw.choice(things.devices)}-{draw.digits(3)}"
        taken.add(device)
        fault = draw.choice(things.faults) if index == place else None
        code = f"{draw.choice(CODE_LETTERS)}{draw.digits(3)}" if fault else ""
        entries.append(Entry(clock_text(minute), device, code, fault))
    _, question = SUMMARIZE.render(draw, lang, {})
    wanted = entries[place]
    return Record(
        log_text(question, entries, lang),
        (wanted.device, wanted.code, wanted.time),
        finish([wanted.clause(lang)], lang),
    )
