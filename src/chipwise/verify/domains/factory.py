"""Factory: log lines in, one sentence out that names devices, fault codes and times."""

from __future__ import annotations

from dataclasses import dataclass

from chipwise.verify.domains.case import Draft, Intent, Phrasing, Term, ToolCall, call_draft
from chipwise.verify.domains.condition import ABOVE, AT_LEAST, Condition
from chipwise.verify.domains.draw import Draw, clock_text

MACHINES = ("PUMP", "PRESS", "ROBOT", "BELT", "OVEN", "LATHE", "MIXER", "DRILL")
CODE_LETTERS = "ABCDEFGHKLMNPRSTUVWX"  # families of fault codes, no two in one log
FAULTS = (
    Term("overheat", "overheat", "过热"),
    Term("jam", "jam", "卡料"),
    Term("overload", "overload", "过载"),
    Term("leak", "leak", "泄漏"),
    Term("vibration", "vibration", "振动"),
    Term("stall", "stall", "堵转"),
    Term("low_oil", "low oil", "缺油"),
    Term("sensor_lost", "sensor lost", "传感器丢失"),
)

SUMMARIZE = Phrasing(
    "summarize",
    ("Summarize the faults:", "Which faults are in this log?", "Report all faults, ignore OK lines."),
    ("总结故障：", "这段日志有哪些故障？", "列出所有故障，忽略正常行。"),
)
HOTTEST = Phrasing(
    "hot",
    ("Which machine is {relation} {limit} C?", "Name the machine with a temperature {relation} {limit} C."),
    ("哪台设备温度{relation}{limit}度？", "找出{relation}{limit}度的设备。"),
)
LOOKUP = Phrasing(
    "lookup",
    ("What happened to {device}?", "Report only {device}, not the others."),
    ("{device}发生了什么？", "只报告{device}，不要其他设备。"),
)
TICKET = Phrasing(
    "ticket",
    ("Open a ticket for the {fault}.", "File the {fault} fault as priority {priority}."),
    ("为{fault}故障开工单。", "把{fault}登记为{priority}级工单。"),
)


@dataclass(frozen=True)
class Entry:
    """One log line; a line without a code says that the machine is fine."""

    time: str
    device: str
    code: str = ""
    fault: Term | None = None

    def line(self, lang: str) -> str:
        """The line as logged."""
        if self.fault is None:
            return f"{self.time} {self.device} {'正常' if lang == 'zh' else 'OK'}"
        return f"{self.time} {self.device} {self.fault.name(lang)} {self.code}"

    def sentence(self, lang: str) -> str:
        """What a summary says of a faulty line."""
        fault = self.fault.name(lang) if self.fault else ""
        if lang == "zh":
            return f"{self.device}在{self.time}报{fault}{self.code}"
        return f"{self.device} reported {fault} {self.code} at {self.time}"

    @property
    def keywords(self) -> tuple[str, ...]:
        """Device, code and time."""
        return (self.device, self.code, self.time)


def draw_log(draw: Draw, count: int, faulty: int) -> list[Entry]:
    """`count` lines of different machines in order of time, `faulty` of them with different faults."""
    minute = draw.minute_of_day()
    faults = draw.sample(FAULTS, faulty)
    places = draw.sample(range(count), faulty)
    machines, letters = draw.sample(MACHINES, count), draw.sample(CODE_LETTERS, count)
    entries = []
    for index in range(count):
        minute += draw.integer(1, 40)
        time, device = clock_text(minute), f"{machines[index]}-{draw.digits(3)}"
        if index in places:
            entries.append(Entry(time, device, f"{letters[index]}{draw.digits(3)}", faults[places.index(index)]))
        else:
            entries.append(Entry(time, device))
    return entries


def log_text(question: str, entries: list[Entry], lang: str) -> str:
    """The question and the log below it."""
    return "\n".join([question, *(entry.line(lang) for entry in entries)])


def finish(clauses: list[str], lang: str) -> str:
    """One sentence of several clauses."""
    return "；".join(clauses) + "。" if lang == "zh" else "; ".join(clauses) + "."


def summarize(draw: Draw, lang: str) -> Draft:
    """Every faulty line, in order; or that there is none."""
    entries = draw_log(draw, draw.integer(2, 4), draw.choice((0, 1, 1, 2, 2)))
    name, question = SUMMARIZE.render(draw, lang, {})
    bad = [entry for entry in entries if entry.fault]
    if not bad:
        first, last = entries[0].time, entries[-1].time
        none = f"{first}到{last}无故障" if lang == "zh" else f"No faults from {first} to {last}"
        return Draft(name, log_text(question, entries, lang), finish([none], lang), (first, last), "summary")
    words = tuple(word for entry in bad for word in entry.keywords)
    answer = finish([entry.sentence(lang) for entry in bad], lang)
    return Draft(name, log_text(question, entries, lang), answer, words, "summary")


def lookup(draw: Draw, lang: str) -> Draft:
    """The fault of one device among others."""
    entries = draw_log(draw, draw.integer(2, 3), 2)
    wanted = draw.choice([entry for entry in entries if entry.fault])
    name, question = LOOKUP.render(draw, lang, {"device": wanted.device})
    answer = finish([wanted.sentence(lang)], lang)
    return Draft(name, log_text(question, entries, lang), answer, wanted.keywords, "summary")


def hottest(draw: Draw, lang: str) -> Draft:
    """The one machine whose temperature satisfies the condition."""
    relation, limit = draw.choice((ABOVE, AT_LEAST)), 10 * draw.integer(4, 8)
    over = Condition(relation, limit, limit + draw.integer(1, 19))
    under = [Condition(relation, limit, limit - draw.integer(1, 19)) for _ in range(draw.integer(1, 2))]
    readings = draw.sample([over, *under], len(under) + 1)
    rows = list(zip(draw_log(draw, len(readings), 0), readings, strict=True))
    name, question = HOTTEST.render(draw, lang, {"relation": relation.name(lang), "limit": limit})
    lines = [f"{entry.time} {entry.device} {condition.reading} C" for entry, condition in rows]
    hot, found = next((entry, condition) for entry, condition in rows if condition.holds)
    answer = f"{found.reading} C on {hot.device} at {hot.time}."
    if lang == "zh":
        answer = f"{found.reading}度，{hot.device}，{hot.time}。"
    return Draft(name, "\n".join([question, *lines]), answer, (hot.device, str(found.reading), hot.time), "summary")


def ticket(draw: Draw, lang: str) -> Draft:
    """A tool call that files one of the faults of a log."""
    entries = draw_log(draw, draw.integer(2, 3), 2)
    wanted = draw.choice([entry for entry in entries if entry.fault])
    fault, priority = wanted.fault.name(lang) if wanted.fault else "", draw.integer(1, 5)
    name, question = TICKET.render(draw, lang, {"fault": fault, "priority": priority})
    arguments: dict[str, object] = {"fault": fault, "code": wanted.code, "device": wanted.device, "time": wanted.time}
    if name == "ticket1":
        arguments["priority"] = priority
    return call_draft(name, log_text(question, entries, lang), ToolCall("open_ticket", arguments))


INTENTS: tuple[Intent, ...] = (summarize, summarize, lookup, hottest, ticket)
