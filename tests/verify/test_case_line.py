from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chipwise.errors import QueryFileError
from chipwise.model.chat_template import ChatTemplate
from chipwise.verify.case import Case
from chipwise.verify.case_line import case_of
from chipwise.verify.scoring.requirement import Requirement
from chipwise.verify.scoring.settings import ScorerSettings
from chipwise.verify.suite import read_suite
from tests.verify.words import word_tokenizer

RULE = {
    "id": "r",
    "prompt": "If it is above 26, turn the fan on.",
    "values": {"t": 31},
    "rule": "t > 26",
    "then": {"calls": {"name": "turn_on", "arguments": {"device": "fan"}}},
    "else": {"absent": ["turn_on"]},
}
RECORD = "07:12 pump-2041 reported E123.\n" + "08:00 all is well.\n" * 20
FACT = {"id": "f", "prompt": RECORD, "fact": "E123"}
CLEAN = {
    "id": "c",
    "prompt": "Turn on the lamp.",
    "expected": '{"tool":"turn_on","device":"lamp"}',
    "dimension": "logic",
}
NOISY = {"id": "n", "prompt": "uh turn on teh lamp", "clean": "c"}


def read(folder: Path, *lines: dict[str, Any], toml: str | None = "") -> tuple[Case, ...]:
    path = folder / "cases.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    if toml is None:
        return read_suite(path).cases
    (folder / "suite.toml").write_text(toml)
    return read_suite(folder).cases


@pytest.mark.parametrize(("reading", "right", "wrong"), [(31, "turn_on", "none"), (20, "none", "turn_on")])
def test_a_rule_is_evaluated_on_the_values(tmp_path: Path, reading: int, right: str, wrong: str) -> None:
    (case,) = read(tmp_path, {**RULE, "values": {"t": reading}})
    assert case.dimension == "logic"
    assert case.misses(json.dumps({"tool": right, "device": "fan"})) == ()
    assert case.misses(json.dumps({"tool": wrong, "device": "fan"})) != ()


def test_the_tools_of_a_case_are_calls_wherever_they_stand(tmp_path: Path) -> None:
    tools = [{"type": "function", "function": {"name": "siren", "parameters": {}}}]
    branches = {"then": {"calls": {"name": "open", "arguments": {"door": 1}}}, "else": {"calls": []}}
    by_rule, offered = read(
        tmp_path,
        {"id": "r", "prompt": "q", "rule": "t > 26", "values": {"t": 1}, **branches},
        {"id": "o", "prompt": "q", "calls": [], "tools": tools},
    )
    assert by_rule.misses("I will open(1) it") != ()
    assert by_rule.misses("I will siren(1) it") == ()
    assert offered.misses("I will siren(1) it") != ()


def test_the_expected_json_of_logic_is_compared_by_meaning(tmp_path: Path) -> None:
    call, value, words = read(
        tmp_path,
        CLEAN,
        {"id": "j", "prompt": "q", "expected": '{"on":true}', "dimension": "logic"},
        {"id": "w", "prompt": "q", "expected": "set 26 C", "dimension": "logic"},
    )
    assert call.misses('{"name":"turn_on","arguments":{"device":"LAMP"}}') == ()
    assert call.misses('{"tool":"turn_off","device":"lamp"}') == ("calls turn_off, not turn_on",)
    assert value.misses('{"on":"true"}') == ()
    assert words.misses("26 °C") == ()


def test_a_fact_must_be_said_again(tmp_path: Path) -> None:
    first, second = read(tmp_path, FACT, {**FACT, "id": "g", "keywords": ["pump-2041", "07:12"]})
    assert first.dimension == second.dimension == "long_range"
    assert first.misses("code e123") == ()
    assert first.misses("code E124") == ("E123",)
    assert second.misses("pump-2041 at 7:12") == ()


def test_noise_is_judged_by_the_clean_twins_truth(tmp_path: Path) -> None:
    noisy, clean = read(tmp_path, NOISY, CLEAN)
    assert noisy.dimension == "noise"
    assert noisy.requirement == clean.requirement
    assert noisy.misses('{"tool":"turn_on","device":"lamp"}', "nonsense") == ()
    assert noisy.misses('{"tool":"turn_on","device":"fan"}', '{"tool":"turn_on","device":"fan"}') != ()


def test_noise_without_a_truth_is_judged_by_the_answer_to_the_clean_twin(tmp_path: Path) -> None:
    _, noisy = read(tmp_path, {"id": "c", "prompt": "when?"}, NOISY)
    assert noisy.misses("at 7:30 pm", "At 19:30.") == ()
    assert noisy.misses("at 7:30", "At 19:30.") == ("without noise it said 'At 19:30.'",)
    assert noisy.misses("at 7:30", None) is None


def test_types_of_entities_are_settable(tmp_path: Path) -> None:
    toml = "[dimensions.keyword]\ntypes = ['time', 'id']"
    (case,) = read(tmp_path, {"id": "a", "prompt": "q", "expected": "cam-1 at 7:30, 26 C, “calm”"}, toml=toml)
    assert case.keywords == ("cam-1", "7:30")


def test_a_plain_file_takes_the_fields_too_and_is_strict(tmp_path: Path) -> None:
    rule, plain = read(tmp_path, RULE, {"id": "p", "prompt": "q", "keywords": ["19:30"]}, toml=None)
    assert rule.dimension == "logic"
    assert plain.misses("7:30 pm") == ("19:30",)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({**RULE, "rule": "t >"}, "'t >' is no condition"),
        ({**RULE, "rule": "heat > 3"}, "names 'heat'"),
        ({**RULE, "values": {"t": "warm"}}, "cannot be evaluated"),
        ({**RULE, "values": {"t": "31"}}, "cannot be evaluated"),
        ({**RULE, "values": {"t": None}}, "cannot be evaluated"),
        ({**RULE, "values": 3}, "a rule needs"),
        ({key: RULE[key] for key in RULE if key != "rule"}, "a rule needs"),
        ({key: RULE[key] for key in RULE if key != "then"}, "a rule needs"),
        ({**{key: RULE[key] for key in RULE if key != "else"}, "values": {"t": 1}}, "no else"),
        ({**RULE, "else": {"keyword": []}}, "no object of the known fields"),
        ({**RULE, "then": {"calls": {"arguments": {}}}}, "a call names no tool"),
        ({**RULE, "else": {"calls": 3}}, "a call names no tool"),
        ({**RULE, "else": {"calls": {"name": " ", "arguments": {}}}}, "a call names no tool"),
        ({**RULE, "else": {"calls": {"name": "a", "arguments": [1]}}}, "no JSON object"),
        ({**RULE, "keywords": ["x"]}, "keywords stands beside a rule"),
        ({**RULE, "dimension": "long"}, "no dimension is named 'long'"),
        ({**RULE, "dimension": ["logic"]}, "no dimension is named"),
        ({**FACT, "fact": "E124"}, "the fact 'E124' is not in the record"),
        ({**FACT, "prompt": "ok. " * 99 + "E123"}, "stands behind the first 50% of the record"),
        ({**FACT, "fact": ""}, "a text of fact is empty"),
        ({**FACT, "fact": 3}, "fact is no list"),
        ({**NOISY, "clean": "x"}, "the clean case 'x' is in no line"),
        ({**NOISY, "clean": "n"}, "is a case of noise itself"),
        ({**NOISY, "clean": 3}, "clean is no text"),
        ({**NOISY, "dimension": "logic"}, "a case of noise names its clean twin"),
        ({"id": "n", "prompt": "q", "dimension": "noise"}, "a case of noise names its clean twin"),
        ({"id": "n", "prompt": "q", "dimension": "logic"}, "nothing says which answer is right"),
        ({"id": "n", "prompt": "q", "exact": " "}, "exact is no text"),
        ({"id": "n", "prompt": "q", "exact": "..."}, "exact is '...', nothing but punctuation"),
        ({"id": "n", "prompt": "q", "exact": "\u200b"}, "exact is no text"),
        ({"id": "n", "prompt": "q", "keywords": ["\u200b"]}, "a keyword is empty"),
        ({"id": "n", "prompt": "q", "keywords": ["..."]}, "'...' of keywords is nothing but punctuation"),
        ({"id": "n", "prompt": "q", "calls": {"name": "a", "arguments": "{bad"}}, "no JSON object"),
        (
            {"id": "n", "prompt": "q", "dimension": "logic", "expected": '{"name":"a","arguments":"{"}'},
            "no JSON object",
        ),
        ({"id": "n", "prompt": "q", "absent": [3]}, "absent is no list"),
        ({"id": "n\ud83d", "prompt": "q"}, "ud83d is half of a surrogate pair"),
        ({"id": "n", "prompt": "q", "expected": "\udc00"}, "udc00 is half of a surrogate pair"),
        ({"id": "n", "prompt": "q", "lang": "\ud83d"}, "half of a surrogate pair"),
        ({"id": "n", "prompt": "q", "keywords": ["a", "\ud83d"]}, "half of a surrogate pair"),
        ({"id": "n", "prompt": "q", "json": {"t": float("nan")}}, "NaN and Infinity are no JSON"),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, line: dict[str, Any], message: str) -> None:
    with pytest.raises(QueryFileError) as caught:
        read(tmp_path, CLEAN, line)
    assert message in str(caught.value)
    assert "cases.jsonl:2" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ('{"id":"a","prompt":"q","id":"b"}', "id"),
        ('{"id":"a","prompt":"q","json":{"on":true,"on":false}}', "on"),
        ('{"id":"a","messages":[{"role":"user","role":"user","content":"q"}]}', "role"),
    ],
)
def test_a_field_that_comes_twice_is_named(tmp_path: Path, line: str, name: str) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text(line)
    with pytest.raises(QueryFileError, match=f"cases.jsonl:1: the field '{name}' comes twice"):
        read_suite(path)


TOOLS = [{"type": "function", "function": {"name": "turn_on", "parameters": {"type": "object"}}}]
SHOWS = ChatTemplate("{% for t in tools or [] %}w{{ t.function.name | length }} {% endfor %}{{ messages[0].content }}")


def test_tools_reach_the_template() -> None:
    case = case_of({"id": "a", "prompt": "w3", "tools": TOOLS}, "here:1", ScorerSettings(), 4)
    tokens = case.encode(word_tokenizer(), SHOWS).tokens
    assert tokens == (7, 3)
    plain = case_of({"id": "a", "prompt": "w3"}, "here:1", ScorerSettings(), 4)
    assert plain.encode(word_tokenizer(), SHOWS).tokens == (3,)


@pytest.mark.parametrize("template", [None, ChatTemplate("{{ messages[0].content }}", where="chat_template.jinja")])
def test_a_template_that_shows_no_tools_is_said(template: ChatTemplate | None) -> None:
    case = case_of({"id": "a", "prompt": "w3", "tools": TOOLS}, "here:1", ScorerSettings(), 4)
    with pytest.raises(QueryFileError, match="case 'a' names tools, and the model"):
        case.encode(word_tokenizer(), template)


@pytest.mark.parametrize("tools", [{}, "turn_on", [1], [{}], [{"function": "turn_on"}], [{"function": {"name": 3}}]])
def test_tools_that_are_none(tools: object) -> None:
    with pytest.raises(QueryFileError, match="here:1: tools is no list of functions with names"):
        case_of({"id": "a", "prompt": "w3", "tools": tools}, "here:1", ScorerSettings(), 4)


def test_what_is_null_is_not_said_but_for_json() -> None:
    told = {
        "id": "a",
        "prompt": "q",
        "clean": None,
        "expected": None,
        "keywords": None,
        "lang": None,
        "max_tokens": None,
    }
    assert case_of(told, "here:1", ScorerSettings(), 4) == case_of(
        {"id": "a", "prompt": "q"}, "here:1", ScorerSettings(), 4
    )
    asked = case_of({"id": "a", "prompt": "q", "json": None}, "here:1", ScorerSettings(), 4)
    assert asked.requirement == Requirement(json=(None,), same=asked.requirement.same)
