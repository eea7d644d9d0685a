"""What a model must be told to answer a domain's cases, if it was not trained on them."""

from __future__ import annotations

from collections.abc import Sequence

from chipwise.verify.domains import camera, home, vehicle
from chipwise.verify.domains.case import Term
from chipwise.verify.domains.factory import FAULTS


def _ids(terms: Sequence[Term]) -> str:
    return "|".join(term.id for term in terms)


_TOOLS = {
    "home": (
        '{"tool":"set_temperature","room":R,"value":NUMBER,"unit":"C"|"F"}',
        '{"tool":"set_brightness","room":R,"device":"lamp" or the light\'s number as given,"percent":NUMBER}',
        '{"tool":"turn_on"|"turn_off","room":R,"device":D}',
        '{"tool":"schedule","device":as given,"action":"turn_on"|"turn_off","time":"HH:MM","minutes":NUMBER}',
        f"R = {_ids(home.ROOMS)}; D = {_ids(home.DEVICES)}",
    ),
    "vehicle": (
        f'{{"tool":"navigate","to":address as given,"avoid":[any of {_ids(vehicle.AVOIDABLE)}]}}',
        f'{{"tool":"set_climate","zone":{_ids(vehicle.ZONES)},"value":NUMBER,"unit":"C"}}',
        '{"tool":"cruise","value":NUMBER,"unit":"km/h"|"mph","gap_m":NUMBER}',
        '{"tool":"call","number":"DIGITS"}',
        '{"tool":"radio","mhz":NUMBER,"volume":NUMBER}',
        f'{{"tool":"window","window":{_ids(vehicle.WINDOWS)},"percent":NUMBER}}',
        f'{{"tool":"go_to","place":{_ids(vehicle.REFILL)},"at":address as given}}',
    ),
    "factory": (
        f'{{"tool":"open_ticket","device":D,"fault":{_ids(FAULTS)},"code":C,"time":"HH:MM"}}',
        'with "priority":NUMBER in it if one is given',
        '{"tool":"alarm","device":D,"time":"HH:MM"}',
        "Asked for a summary, write one sentence with device, fault, code and time of each fault instead.",
    ),
    "camera": (
        '{"tool":"record","camera":C,"seconds":NUMBER,"fps":NUMBER,"audio":true|false (true unless excluded)}',
        '{"tool":"move","camera":C,"pan":DEGREES, left is negative,"tilt":DEGREES, down is negative}',
        f'{{"tool":"alert","camera":C,"class":{_ids(camera.OBJECTS)},"from":"HH:MM","to":"HH:MM"}}',
        f'{{"tool":"switch","camera":C,"feature":{_ids(camera.FEATURES)},"state":"on"|"off"}}',
        '{"tool":"play","camera":C,"date":"MM-DD","time":"HH:MM"}',
        '{"tool":"photo","camera":C}',
    ),
}
_NONE = '{"tool":"none"}'
_LEAD = {
    "en": "Answer with one JSON object of this list and nothing else. If the condition of a rule does not hold: {none}",
    "zh": "只用下列格式之一的JSON回答，不要写别的。若规则的条件不成立：{none}",
}
_RECORD = {
    "en": "Answer in one sentence with device, fault, code and time of each fault in the log.",
    "zh": "用一句话回答，写出日志中每个故障的设备、故障、代码和时间。",
}


def tools_text(domain: str, lang: str) -> str:
    """The system text that names a domain's tools."""
    return "\n".join((_LEAD[lang].format(none=_NONE), *_TOOLS[domain]))


def record_text(lang: str) -> str:
    """The system text for a question about a record."""
    return _RECORD[lang]
