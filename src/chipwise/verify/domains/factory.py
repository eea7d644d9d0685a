"""Factory: log lines in, one sentence out that names devices, fault codes and times."""

from __future__ import annotations

from dataclasses import dataclass

from chipwise.verify.domains.case import Draft, Intent, Phrasing, Term, ToolCall, call_draft
from chipwise.verify.domains.condition import draw_condition
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
TICKET = Phrasing(
    "ticket",
    ("Open a ticket for this log:", "File the fault as priority {priority}:", "Do not summarize, open a ticket:"),
    ("为这段日志开工单：", "把故障登记为{priority}级工单：", "不要总结，开工单："),
)
ALARM = Phrasing(
    "alarm",
    ("Raise the alarm if a machine is {relation} {limit} C:", "Alarm if a temperature is {relation} {limit} C:"),
    ("如果有设备{relation}{limit}度就报警：", "温度{relation}{limit}度时报警："),
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

    def clause(self, lang: str) -> str:
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
    answer = finish([entry.clause(lang) for entry in bad], lang)
    return Draft(name, log_text(question, entries, lang), answer, words, "summary")


def ticket(draw: Draw, lang: str) -> Draft:
    """A tool call that files the one fault of a log."""
    entries = draw_log(draw, draw.integer(1, 3), 1)
    wanted, priority = next(entry for entry in entries if entry.fault), draw.integer(1, 5)
    name, question = TICKET.render(draw, lang, {"priority": priority})
    fault = wanted.fault.id if wanted.fault else ""
    arguments: dict[str, object] = {"device": wanted.device, "fault": fault, "code": wanted.code, "time": wanted.time}
    if name == "ticket1":
        arguments["priority"] = priority
    return call_draft(name, log_text(question, entries, lang), ToolCall("open_ticket", arguments))


def alarm(draw: Draw, lang: str) -> Draft:
    """Raise the alarm only if the one temperature in the log satisfies the condition."""
    entries = draw_log(draw, draw.integer(1, 3), 0)
    wanted = draw.choice(entries)
    condition = draw_condition(draw, 40, 80)
    limits = {"relation": condition.relation.name(lang), "limit": condition.limit}
    name, question = ALARM.render(draw, lang, limits)
    hot = f"{wanted.time} {wanted.device} {condition.reading} C"
    lines = [hot if entry is wanted else entry.line(lang) for entry in entries]
    call = condition.choose(ToolCall("alarm", {"device": wanted.device, "time": wanted.time}))
    return call_draft(name, "\n".join([question, *lines]), call)


INTENTS: tuple[Intent, ...] = (summarize, summarize, ticket, alarm)
