"""What each domain's answers must mean, read back from the text alone."""

from __future__ import annotations

import json
import re

from chipwise.verify.domains import DomainCase, generate
from chipwise.verify.domains.case import ToolCall


def cases_of(domain: str, template: str, lang: str = "en") -> list[DomainCase]:
    cases = [case for case in generate(domain, 800, 11, "train") if f"-{lang}-{template}" in case.id]
    assert len(cases) >= 5
    return cases


def test_a_switch_does_what_it_is_told_and_not_the_opposite() -> None:
    for case in cases_of("home", "switch2"):
        told = re.fullmatch(
            r"Do not turn (on|off) the (.+) in the (.+), turn (on|off) it\.", case.messages[0]["content"]
        )
        assert told is not None
        assert json.loads(case.expected)["tool"] == f"turn_{told[4]}"
        assert told[1] != told[4]


def test_navigation_avoids_what_is_excluded_and_not_what_is_allowed() -> None:
    for case in cases_of("vehicle", "navigate2"):
        _, allowed = case.messages[0]["content"].split(" without ")
        avoided = json.loads(case.expected)["avoid"]
        assert len(avoided) == 1
        assert allowed.startswith(avoided[0][:4])


def test_an_alert_names_the_wanted_object() -> None:
    for case in cases_of("camera", "alert1"):
        wanted = re.search(r" for (\w+), not (\w+)\.", case.messages[0]["content"])
        assert wanted is not None
        assert json.loads(case.expected)["class"][:2] == wanted[1][:2]


def test_left_and_down_are_negative() -> None:
    for case in cases_of("camera", "move"):
        call, text = json.loads(case.expected), case.messages[0]["content"]
        assert (call["pan"] < 0) == (" left " in text)
        assert (call["tilt"] < 0) == (" down " in text)


def test_a_summary_names_every_faulty_line_and_no_other() -> None:
    for lang in ("en", "zh"):
        for case in cases_of("factory", "summarize", lang):
            lines = case.messages[0]["content"].splitlines()[1:]
            faulty = [line.split()[1] for line in lines if re.search(r" [A-Z]\d{3}$", line)]
            assert re.findall(r"[A-Z]+-\d{3}", case.expected) == faulty


def test_an_alarm_follows_from_the_temperature_in_the_log() -> None:
    raised = set()
    for case in cases_of("factory", "alarm"):
        question, *lines = case.messages[0]["content"].splitlines()
        ((_, device, reading, _),) = (line.split() for line in lines if line.endswith(" C"))
        answer = json.loads(case.expected)
        assert answer["reading"] == int(reading)
        assert f"{answer['limit']} C" in question
        if answer["tool"] == "alarm":
            assert answer["device"] == device
        raised.add(answer["tool"])
    assert raised == {"alarm", "none"}


def test_a_ticket_holds_the_faulty_line() -> None:
    for case in cases_of("factory", "ticket", "zh"):
        lines = case.messages[0]["content"].splitlines()[1:]
        (line,) = (line for line in lines if not line.endswith("正常"))
        answer = json.loads(case.expected)
        assert line.split()[:2] == [answer["time"], answer["device"]]
        assert line.split()[3] == answer["code"]


def test_a_tool_call_keeps_the_order_of_its_arguments_and_its_letters() -> None:
    call = ToolCall("navigate", {"to": "人民路18号", "avoid": ["toll", "ferry"], "fast": True, "km": 2.5})
    assert call.text() == '{"tool":"navigate","to":"人民路18号","avoid":["toll","ferry"],"fast":true,"km":2.5}'
    assert call.keywords() == ("navigate", "人民路18号", "toll", "ferry", "true", "2.5")
