from __future__ import annotations

import itertools
import json

import pytest

from chipwise.verify.domains import DOMAINS, generate
from chipwise.verify.scoring.tool_call import (
    CallRules,
    ToolCall,
    call_differences,
    call_of,
    calls_in,
    has_broken_arguments,
)

LAMP = {"room": "bedroom", "percent": 50}
CALL = ToolCall("set_brightness", LAMP)


@pytest.mark.parametrize(
    "value",
    [
        {"name": "set_brightness", "arguments": LAMP},
        {"name": "set_brightness", "arguments": json.dumps(LAMP)},
        {"name": "set_brightness", "parameters": LAMP},
        {"tool": "set_brightness", **LAMP},
        {**LAMP, "tool": "set_brightness"},
        {"type": "function", "id": "x", "function": {"name": "set_brightness", "arguments": json.dumps(LAMP)}},
    ],
)
def test_every_usual_shape_is_the_same_call(value: dict) -> None:
    assert call_of(value) == CALL
    assert call_differences([CALL], f"Sure! {json.dumps(value)}", CallRules()) == ()
    assert calls_in(json.dumps({"tool_calls": [value]})) == (CALL,)


@pytest.mark.parametrize("value", [None, 3, [], {}, {"room": "x"}, {"name": 3}, {"function": 3}])
def test_what_is_no_call(value: object) -> None:
    assert call_of(value) is None


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ('{"tool":"set_brightness","percent":"50","room":"Bedroom"}', ()),
        ('{"tool":"set_brightness","percent":59,"room":"bedroom"}', ("percent is 59, not 50",)),
        ('{"tool":"set_colour","percent":50,"room":"bedroom"}', ("calls set_colour, not set_brightness",)),
        ("I turned it to 50.", ("no tool call",)),
        ('{"tool":"set_brightness","percent":50}', ('room is missing, should be "bedroom"',)),
        ('[{"tool":"a"},{"tool":"b"}]', ("2 tool calls, not 1",)),
    ],
)
def test_what_is_wrong_is_named(answer: str, words: tuple[str, ...]) -> None:
    assert call_differences([CALL], answer, CallRules()) == words


def test_defaults_and_arguments_that_do_not_count() -> None:
    rules = CallRules(defaults={"record": {"audio": True}}, ignore=frozenset({"reason"}))
    wanted = ToolCall("record", {"camera": "cam-1", "audio": True})
    assert call_differences([wanted], '{"tool":"record","camera":"cam-1","reason":"asked"}', rules) == ()
    assert call_differences([wanted], '{"tool":"record","camera":"cam-1","audio":false}', rules) != ()
    assert call_differences([wanted], '{"tool":"record","camera":"cam-1"}', CallRules()) != ()


def test_the_order_of_several_calls() -> None:
    wanted = [ToolCall("a", {"x": 1}), ToolCall("b", {}), ToolCall("a", {"x": 2})]
    texts = ['{"tool":"a","x":1}', '{"tool":"b"}', '{"tool":"a","x":2}']
    for order in itertools.permutations(texts):
        answer = "\n".join(order)
        assert call_differences(wanted, answer, CallRules(ordered=False)) == ()
        assert (call_differences(wanted, answer, CallRules()) == ()) == (list(order) == texts)


def test_no_call_may_be_asked_for() -> None:
    assert call_differences([], "All is well.", CallRules()) == ()
    assert call_differences([], '{"tool":"siren"}', CallRules()) == ("1 tool calls, not 0",)


@pytest.mark.parametrize(
    "answer",
    [
        '{"name":"siren","name":"lamp"}',
        '{"function":{"name":"siren"},"function":{"name":"lamp"}}',
        '{"tool_calls":[{"name":"siren"}],"tool_calls":[]}',
        '{"name":"siren","arguments":"{bad"}',
    ],
)
def test_a_call_that_is_broken_is_a_call(answer: str) -> None:
    assert call_differences([], answer, CallRules()) == ("1 tool calls, not 0",)
    for name in ("siren", "lamp"):
        assert call_differences([ToolCall(name, {})], answer, CallRules()) != ()


def test_broken_arguments_are_told_from_none() -> None:
    assert has_broken_arguments({"name": "a", "arguments": "{bad"})
    assert has_broken_arguments({"function": {"name": "a", "arguments": "[1]"}})
    assert not has_broken_arguments({"name": "a", "arguments": ""})
    assert has_broken_arguments({"name": "a", "arguments": [1]})
    assert has_broken_arguments({"function_call": {"name": "a", "arguments": 5}})
    assert not has_broken_arguments({"tool": "search", "input": "weather"})
    assert not has_broken_arguments({"name": "a", "arguments": None})
    assert call_of({"name": "a", "arguments": ""}) == ToolCall("a", {})


@pytest.mark.parametrize("domain", sorted(DOMAINS))
def test_answers_of_the_domains_mean_themselves_only(domain: str) -> None:
    cases = [case for case in generate(domain, 40, 3, "train") if case.kind == "tool_call"]
    for one, other in itertools.pairwise(cases):
        wanted = calls_in(one.expected)
        assert (
            call_differences(wanted, json.dumps(json.loads(one.expected), indent=1, sort_keys=True), CallRules()) == ()
        )
        assert (call_differences(wanted, other.expected, CallRules()) == ()) == (one.expected == other.expected)


FAN = '{"name":"turn_on","arguments":{"device":"fan"}'


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        (FAN + "}", True),
        ("<tool_call>\n```json\n" + FAN + "}\n```\n</tool_call>", True),
        ("[TOOL_CALLS] [" + FAN + "}]", True),
        ("<|tool_call|>" + FAN + "}<|/tool_call|>", True),
        (FAN + ',"id":"call_1","type":"function"}', True),
        (FAN + ',"device":"fan"}', True),
        (FAN + ',"device":"lamp"}', False),
        (FAN + ',"action":"turn_off"}', False),
        (FAN + ',"action":"turn_on"}', True),
        (FAN + ',"parameters":{"device":"lamp"}}', False),
        (FAN + ',"parameters":{"device":"fan"}}', True),
        (FAN + ',"function":{"name":"turn_off","arguments":{"device":"fan"}}}', False),
        (FAN + ',"tool_calls":[]}', False),
        (FAN + ',"reason":"asked"}', True),
        ('{"tool":"turn_on","name":"turn_off","arguments":{"device":"fan"}}', False),
        ('{"tool":"turn_on","device":"fan","name":"turn_off"}', False),
        ('{"function":' + FAN + '},"name":"turn_off"}', False),
        ("[" + FAN + '},{"name":"turn_off",', False),
        (FAN + "} and " + FAN, False),
        (FAN + '} {"then":[' + FAN + "}]}", False),
        (FAN + "} for {room} [max]", True),
        ('{"role":"assistant","content":null,"tool_calls":[' + FAN + "}]}", True),
        ('{"actions":[' + FAN + "}]}", False),
    ],
)
def test_nothing_beside_a_call_may_contradict_it(answer: str, right: bool) -> None:
    wanted = [ToolCall("turn_on", {"device": "fan"})]
    assert (call_differences(wanted, answer, CallRules(ignore=frozenset({"reason"}))) == ()) == right


@pytest.mark.parametrize(
    ("answer", "none"),
    [
        ("[]", True),
        ("<tool_call>[]</tool_call>", True),
        ('{"status":"ok"}', True),
        ('{"tool_calls":[]}', True),
        ("Set {room} to [max]", True),
        ("<tool_call>" + FAN, False),
        ("<tool_call>turn_on", False),
        ('{"actions":[' + FAN + "}]}", False),
        ('{"response":{"tool":"turn_on","device":"fan"}}', False),
        ('{"x":{"tool_calls":[' + FAN + "}]}}", False),
        ('{"tool_calls":' + FAN + "}}", False),
        ('{"content":' + json.dumps(FAN + "}") + "}", False),
        (json.dumps(FAN + "}"), False),
        ("{“name”: “turn_on”}", False),
        ("{" + ",".join(f'"name":"{i}"' for i in range(3000)) + "}", False),
        ("<function=turn_on><parameter=device>fan</parameter></function>", False),
        ("<|python_tag|>turn_on()", False),
        ('<tool_call>turn_on</tool_call> {"status":"ok"}', False),
        ('{"a":' * 900 + FAN + "}" * 901, False),
        ("[[" + FAN + "}]]", False),
        ("{'name': 'turn_on'}", False),
    ],
)
def test_a_call_is_seen_wherever_it_stands(answer: str, none: bool) -> None:
    assert (call_differences([], answer, CallRules()) == ()) == none
