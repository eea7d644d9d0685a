from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chipwise.verify.scoring.call_text import calls_as_json
from chipwise.verify.scoring.requirement import Requirement
from chipwise.verify.scoring.tool_call import CallRules, ToolCall, call_differences, calls_in

FAN = ToolCall("turn_on", {"device": "fan"})
NONE = Requirement(calls=())
ONE = Requirement(calls=(FAN,))
FAN_JSON = '{"name":"turn_on","arguments":{"device":"fan"}}'

SAME = [
    'turn_on(device="fan")',
    "turn_on(device='fan')",
    "[turn_on(device='fan')]",
    "- turn_on(device='fan')",
    'turn_on({"device": "fan"})',
    "<|python_tag|>turn_on.call(device='fan')",
    "```tool_code\nturn_on(device='fan')\n```",
    "```python\nprint(turn_on(device='fan'))\n```",
    "Sure: `turn_on(device='fan')`.",
    "<tool_call>turn_on(device='fan')</tool_call>",
    'functions.turn_on({"device":"fan"})',
    '<function=turn_on>{"device":"fan"}</function>',
    "<function=turn_on><parameter=device>\nfan\n</parameter></function>",
    "<tool_call>\n<function=turn_on>\n<parameter=device>\nfan\n</parameter>\n</function>\n</tool_call>",
    '<invoke name="turn_on"><parameter name="device">fan</parameter></invoke>',
    '[TOOL_CALLS]turn_on[ARGS]{"device":"fan"}',
    '[TOOL_CALLS]turn_on[CALL_ID]a1B2[ARGS]{"device": "fan"}',
    '[TOOL_CALLS] [{"name":"turn_on","arguments":{"device":"fan"}}]',
    'Action: turn_on\nAction Input: {"device":"fan"}',
    "<|channel|>analysis<|message|>turn_off(lamp)<|end|><|start|>assistant<|channel|>commentary "
    'to=functions.turn_on <|constrain|>json<|message|>{"device":"fan"}<|call|>',
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>turn_on\n"
    '```json\n{"device":"fan"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    '<｜tool▁call▁begin｜>turn_on<｜tool▁sep｜>{"device":"fan"}<｜tool▁call▁end｜>',
    '<|tool_calls_section_begin|><|tool_call_begin|>functions.turn_on:0<|tool_call_argument_begin|>{"device":"fan"}'
    "<|tool_call_end|><|tool_calls_section_end|>",
    '✿FUNCTION✿: turn_on\n✿ARGS✿: {"device":"fan"}',
    '<tool>{"name":"turn_on","arguments":{"device":"fan"}}</tool>',
    '{"action":"turn_on","action_input":{"device":"fan"}}',
    '{"role":"assistant","content":"","function_call":{"name":"turn_on","arguments":"{\\"device\\":\\"fan\\"}"}}',
]

OTHER = [
    "turn_on(fan)",
    "<tool>turn_on</tool>",
    "<tool_use>turn_on fan</tool_use>",
    "turn_on('fan')",
    "turn_on(device='lamp')",
    "turn_on(device='fan', level=3)",
    "turn_on(device='fan', device='fan')",
    "turn_on(device='fan'",
    "turn_on(device=)",
    "turn_on(device=get('fan'))",
    "turn_on()",
    "turn_off(device='fan')",
    'setLevel({"device":"fan"})',
    "<function=turn_on>{\"device\":\"fan\"",
    '<function=turn_on>{"device":"lamp","device":"fan"}</function>',
    "<function=turn_on><parameter=device>fan</parameter><parameter=device>lamp</parameter></function>",
    "<function=turn_on><parameter=device>fan</parameter> then the lamp</function>",
    '[TOOL_CALLS]turn_on[ARGS]{"device":"fan"',
    "Action: turn_on\nAction Input: fan",
    "<start_function_call>call:turn_on{device:<escape>fan<escape>}<end_function_call>",
    "<tool_call>\nturn_on\n<arg_key>device</arg_key>\n<arg_value>fan</arg_value>\n</tool_call>",
    "{name: turn_on, arguments: {device: fan}}",
    "climate.set_level(26)",
    "setTemperature(26)",
    "home.lights.on()",
    "open(door)",
]  # fmt: skip


@pytest.mark.parametrize("answer", SAME)
def test_a_call_in_another_notation_is_that_call(answer: str) -> None:
    assert ONE.misses(answer) == ()
    assert NONE.misses(answer) != ()
    assert ONE.misses(answer.replace("fan", "lamp")) != ()


@pytest.mark.parametrize("answer", OTHER)
def test_another_call_is_one(answer: str) -> None:
    assert ONE.misses(answer) != ()
    assert NONE.misses(answer) != ()
    assert ONE.misses(f"{FAN_JSON}\n{answer}") != ()


@pytest.mark.parametrize(
    "answer",
    [
        "No call to turn_on() is needed.",
        "Nothing (the fan stays off).",
        "The room(s) are warm; Temperature(24) is below the limit.",
        "f(x) is a function",
        "lamp_1(off), WiFi(5 GHz), iPhone(15), node.js(v18), e.g.(see above)",
        "无需操作（温度为24度）",
        "Action: none\nAction Input: none",
        "Thought: it is 24 degrees.\nAction: none",
        '{"status": "turn_on(fan) is not needed"}',
        "{room: kitchen}",
        "CO2(ppm) is 400",
    ],
)
def test_what_is_no_call(answer: str) -> None:
    assert NONE.misses(answer) == ()
    assert calls_as_json(answer) == answer


def test_the_tools_of_a_case_are_known_by_name() -> None:
    said = "I will now open(door) for you"
    assert call_differences([], said, CallRules()) == ()
    assert call_differences([], said, CallRules(tools=frozenset({"open"}))) != ()
    assert call_differences([FAN], f"{FAN_JSON} and turn_off(fan)", CallRules()) != ()


def test_a_tool_of_the_case_may_be_named_by_the_only_field() -> None:
    rules = CallRules(tools=frozenset({"siren"}))
    assert ONE.misses('{"turn_on": {"device": "fan"}}') == ()
    assert ONE.misses('[{"turn_on": {"device": "fan"}}]') == ()
    assert ONE.misses('{"turn_on": {"device": "lamp"}}') != ()
    assert call_differences([], '{"siren": {"on": true}}', rules) != ()
    assert call_differences([], '{"siren": "stays off"}', rules) == ()
    assert call_differences([], '{"status": {"on": true}}', rules) == ()


def test_an_action_without_input_is_one_of_the_cases_tools() -> None:
    rules = CallRules(tools=frozenset({"siren"}))
    assert call_differences([ToolCall("siren", {})], "Thought: smoke\nAction: siren\n", CallRules()) == ()
    assert call_differences([], "Action: siren", rules) != ()
    assert call_differences([], "Action: siren stays off", rules) == ()
    assert call_differences([], "Action: wait", rules) == ()


def test_order_and_values_are_kept() -> None:
    answer = '[a_b(x=1, y=[1, "2"], z=true), c_d(t=-2.5, n=None)] then {"name":"e","arguments":{"k":"turn_on(fan)"}}'
    assert calls_in(answer) == (
        ToolCall("a_b", {"x": 1, "y": [1, "2"], "z": True}),
        ToolCall("c_d", {"t": -2.5, "n": None}),
        ToolCall("e", {"k": "turn_on(fan)"}),
    )


@given(st.dictionaries(st.from_regex(r"[a-z]{1,8}", fullmatch=True), st.text(max_size=20) | st.integers(), max_size=3))
def test_json_is_left_alone(fields: dict[str, object]) -> None:
    written = json.dumps({"name": "turn_on", "arguments": fields}, ensure_ascii=False)
    assert calls_as_json(written) == written


@given(st.text(st.sampled_from("ab_(){}[]=,'\"\\ \n<>/"), max_size=60))
def test_any_text_can_be_read(text: str) -> None:
    assert isinstance(calls_as_json(text), str)


@pytest.mark.parametrize(
    "part",
    [
        *("f(", "a_b(", "f(x=", "a_b('", "a_b(x=[", "a_b(x=1) ", "f(g(x)) ", 'a_b("\\', "a.", "\\"),
        *("<function=a>", '<invoke name="a">', "<parameter=a>", "<function=a><parameter=b>"),
        *("[TOOL_CALLS]a{", "to=functions.a ", "Action: a\n", "call:a{", '{"'),
    ],
)
def test_damage_is_read_in_time(part: str) -> None:
    text = part * (100_000 // len(part))
    began = time.process_time()
    call_differences([FAN], text, CallRules())
    assert time.process_time() - began < 3
