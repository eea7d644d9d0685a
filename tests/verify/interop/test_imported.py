from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chipwise.errors import QueryFileError
from chipwise.verify.case import Case
from chipwise.verify.interop.chat_log import chat_case
from chipwise.verify.interop.imported import import_cases
from chipwise.verify.interop.lm_eval import lm_eval_case
from chipwise.verify.suite import read_suite
from chipwise.verify.suite_writer import write_suite

ASK = [{"role": "user", "content": "Which pump failed?"}]
SAID = {"role": "assistant", "content": "PUMP-204 failed at 7:30 pm."}
CALL = {"id": "x", "type": "function", "function": {"name": "turn_on", "arguments": '{"device": "fan"}'}}
CALLED = {"role": "assistant", "content": None, "tool_calls": [CALL]}


def cases(folder: Path, *rows: object) -> dict[str, Case]:
    path = folder / "theirs.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    write_suite(folder / "s", "s", import_cases(path).lines, about="", record_lines=40, overwrite=True)
    return {case.id: case for case in read_suite(folder / "s").cases}


@pytest.mark.parametrize(
    "row",
    [
        {"messages": [*ASK, SAID]},
        {"messages": ASK, "choices": [{"message": SAID}]},
        {"request": {"messages": ASK, "model": "m"}, "response": {"choices": [{"message": SAID}]}},
        {"custom_id": "c", "body": {"messages": ASK}, "response": {"body": {"choices": [{"message": SAID}]}}},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "Which pump failed?"}]}, SAID]},
    ],
)
def test_chat_logs_of_every_usual_shape(tmp_path: Path, row: dict[str, Any]) -> None:
    (case,) = cases(tmp_path, row).values()
    assert case.text == "Which pump failed?"
    assert case.dimension == "keyword"
    assert case.misses("pump-204, at 19:30") == ()
    assert case.misses("pump-205, at 19:30") == ("pump-204",)
    assert case.labels == {"lang": "en"}


def test_an_answer_that_calls_tools_is_logic(tmp_path: Path) -> None:
    old = {"role": "assistant", "content": "", "function_call": CALL["function"]}
    found = cases(tmp_path, {"messages": [*ASK, CALLED]}, {"id": "old", "messages": [*ASK, old]})
    for case in found.values():
        assert case.dimension == "logic"
        assert case.misses('{"tool":"turn_on","device":"Fan"}') == ()
        assert case.misses('{"tool":"turn_off","device":"fan"}') != ()
    assert list(found) == ["line-1", "old"]


def test_tool_results_in_the_conversation_stay(tmp_path: Path) -> None:
    result = {"role": "tool", "tool_call_id": "x", "content": "31"}
    (case,) = cases(
        tmp_path, {"messages": [*ASK, CALLED, result, {"role": "assistant", "content": "It is 31 C."}]}
    ).values()
    assert [message["role"] for message in case.query.messages] == ["user", "assistant", "tool"]
    assert case.query.messages[1]["tool_calls"] == [CALL]
    assert case.misses("31 °C") == ()


def test_samples_of_lm_evaluation_harness(tmp_path: Path) -> None:
    generated = {
        "doc_id": 4,
        "doc": {"x": 1},
        "target": "... so #### 42",
        "arguments": [["Q: 6 * 7? A:", {"until": ["\n"]}]],
    }
    newer = {**generated, "doc_id": 5, "arguments": {"gen_args_0": {"arg_0": "Q: 6 * 7? A:", "arg_1": {"until": []}}}}
    found = cases(tmp_path, generated, newer)
    for case in found.values():
        assert case.text == "Q: 6 * 7? A:"
        assert case.misses("It is 42.") == ()
        assert case.misses("It is 421.") == ("42",)
    assert list(found) == ["4", "5"]


@pytest.mark.parametrize(
    "doc",
    [
        {"question": "Warm?", "choices": ["ice", "fire"], "answer": 1},
        {"question": "Warm?", "choices": ["ice", "fire"], "answer": "B"},
        {"question": "Warm?", "choices": ["ice", "fire"], "answer": "1"},
        {"question": "Warm?", "choices": ["ice", "fire"], "answer": "(b)"},
        {"question": "Warm?", "choices": ["ice", "fire"], "answer": "fire"},
        {"question": "Warm?", "choices": {"text": ["ice", "fire"], "label": ["1", "2"]}, "answerKey": "2"},
        {
            "doc": {"question": "Warm?", "choices": ["ice", "fire"], "answer": 1},
            "target": 1,
            "arguments": [["a", " b"], ["a", " c"]],
        },
    ],
)
def test_choices_are_asked_for_by_letter(tmp_path: Path, doc: dict[str, Any]) -> None:
    (case,) = cases(tmp_path, doc).values()
    assert case.text == "Warm?\nA. ice\nB. fire\nAnswer with the letter alone."
    assert case.misses("b.") == ()
    assert case.misses("A") == ("is not B",)


def test_lines_that_make_no_case_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    rows = [{"messages": [*ASK, SAID]}, {"messages": ASK}, {"messages": [SAID]}, {"other": 1}]
    path.write_text("\n".join(map(json.dumps, rows)))
    found = import_cases(path)
    assert (found.format, len(found.lines), found.left_out) == ("chat", 1, (2, 3, 4))
    for rows_, message in (([{"other": 1}], "no known format"), ([{"messages": ASK}], "no line makes a case as chat")):
        path.write_text("\n".join(map(json.dumps, rows_)))
        with pytest.raises(QueryFileError, match=message):
            import_cases(path)
    path.write_text('{"question": "a", "answer": "b"}\n{')
    with pytest.raises(QueryFileError, match=r"log\.jsonl:2: not JSON"):
        import_cases(path)


def test_the_tools_that_a_request_offered_come_along(tmp_path: Path) -> None:
    tools = [{"type": "function", "function": {"name": "turn_on", "parameters": {"type": "object"}}}]
    rows = (
        {"messages": [*ASK, CALLED], "tools": tools},
        {"request": {"body": {"messages": ASK, "tools": tools}}, "response": {"choices": [{"message": CALLED}]}},
        {"messages": [*ASK, SAID], "tools": []},
    )
    found = list(cases(tmp_path, *rows).values())
    assert [len(case.query.tools) for case in found] == [1, 1, 0]
    assert found[0].query.tools[0] == tools[0]


NAMES = [
    *("tools", "messages", "role", "content", "choices", "message", "request", "response", "body", "tool_calls"),
    *("function_call", "function", "name", "doc", "target", "arguments", "question", "answer", "text", "label"),
    *("gen_args_0", "arg_0"),
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["user", "assistant"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=12,
)
MESSAGES = st.lists(
    st.dictionaries(st.sampled_from(["role", "content", "tool_calls", "function_call"]), JSON), max_size=3
)


@settings(max_examples=300)
@given(st.dictionaries(st.sampled_from(NAMES), JSON), MESSAGES)
def test_wild_lines_make_a_case_or_none(fields: dict[str, Any], messages: list[dict[str, Any]]) -> None:
    for wild in (fields, {"messages": messages}, {"messages": [*messages, *ASK], "choices": [{"message": fields}]}):
        for made in (chat_case(wild), lm_eval_case(wild)):
            assert made is None or "messages" in made or "prompt" in made


@pytest.mark.parametrize(
    "row",
    [
        {"question": "Warm?", "choices": ["ice", "fire"], "answer": "2"},
        {"question": "Warm?", "choices": ["ice", "fire"], "answer": "coal"},
        {"question": "Warm?", "choices": ["fire"], "answer": "fire"},
        {"question": "How many?", "choices": ["1", "2", "3"], "answer": "1"},
        {"doc": {}, "target": "b", "arguments": {"gen_args_0": 5}},
        {"doc": {}, "target": "b", "arguments": {"gen_args_0": {"arg_0": 5}}},
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}, SAID]},
        {"messages": [{"role": "user", "content": 5}, SAID]},
        {"messages": [*ASK, {**CALLED, "tool_calls": [{"function": {"name": "a", "arguments": "{bad"}}]}]},
        {"messages": [*ASK, {**CALLED, "tool_calls": [CALL, {"function": {"arguments": "{}"}}]}]},
    ],
)
def test_what_cannot_be_told_makes_no_case(row: dict[str, Any]) -> None:
    assert (chat_case(row) if "messages" in row else lm_eval_case(row)) is None


def test_no_name_that_is_made_is_one_of_the_lines_own(tmp_path: Path) -> None:
    row = {"messages": [*ASK, SAID]}
    found = cases(tmp_path, {"id": "line-2", **row}, row, {"id": "line-2", **row}, {"id": "line-3", **row})
    assert list(found) == ["line-2", "line-2-again", "line-3-again", "line-3"]


def test_what_no_suite_may_hold_is_named_by_the_line_it_comes_from(tmp_path: Path) -> None:
    path = tmp_path / "theirs.jsonl"
    for bad in (
        {"messages": [{"role": "user", "content": "q"}, SAID], "tools": [{"name": 3}]},
        {"question": "q", "answer": "..."},
    ):
        path.write_text("\n" + json.dumps(bad), encoding="utf-8")
        with pytest.raises(QueryFileError, match=r"theirs\.jsonl:2: "):
            import_cases(path)
    path.write_text('{"question": "q", "answer": "a", "answer": "b"}', encoding="utf-8")
    with pytest.raises(QueryFileError, match=r"theirs\.jsonl:1: the field 'answer' comes twice"):
        import_cases(path)


def test_an_answers_time_is_its_keyword(tmp_path: Path) -> None:
    (case,) = cases(tmp_path, {"messages": [*ASK, {"role": "assistant", "content": "7 at 5 pm"}]}).values()
    assert case.keywords == ("7", "5 pm")
    assert case.misses("7 at 17:00") == ()
    assert case.misses("7 at 5 am") == ("5 pm",)
