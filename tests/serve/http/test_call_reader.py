from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chipwise.serve.http.call_reader import Call, CallReader
from chipwise.serve.text.call_form import HERMES, PLAIN, CallForm


def read(form: CallForm, pieces: list[str]) -> tuple[str, list[tuple[str, dict]]]:
    reader, said, calls = CallReader(form, {"f", "g"}), "", list[Call]()
    for piece in pieces:
        text, more = reader.push(piece)
        said, calls = said + text, calls + more
    text, more = reader.flush()
    calls += more
    assert reader.n_calls == len(calls)
    assert len({call.id for call in calls}) == len(calls)
    return said + text, [(call.name, json.loads(call.arguments)) for call in calls]


def tagged(text: str) -> str:
    return f"<tool_call>\n{text}\n</tool_call>"


F = '{"name": "f", "arguments": {"a": "}</tool_call>{"}}'
G = '{ "arguments": {},"name":"g" }'
LONG_NUMBER = f'{{"name": "g", "arguments": {{"a": {"9" * 5000}}}}}'  # longer than Python reads
CASES: list[tuple[CallForm, str, str, list[tuple[str, dict]]]] = [
    (HERMES, "hello {} <tool", "hello {} <tool", []),
    (HERMES, " hi", " hi", []),
    (HERMES, "", "", []),
    (HERMES, tagged(F), "", [("f", {"a": "}</tool_call>{"})]),
    (HERMES, f"\n{tagged(F)}\n{tagged(G)}\n", "", [("f", {"a": "}</tool_call>{"}), ("g", {})]),
    (HERMES, f"Let me see.{tagged(G)} ok", "Let me see. ok", [("g", {})]),
    (HERMES, f"<tool_call>{G}", "", [("g", {})]),
    (HERMES, f"<tool_call>{F[:-3]}", f"<tool_call>{F[:-3]}", []),
    (HERMES, tagged('{"name": "h", "arguments": {}}'), tagged('{"name": "h", "arguments": {}}'), []),
    (HERMES, tagged("{broken}") + tagged(G), tagged("{broken}"), [("g", {})]),
    (HERMES, tagged('{"name": "g", "arguments": {"a": NaN}}'), tagged('{"name": "g", "arguments": {"a": NaN}}'), []),
    (HERMES, tagged('{"name": "g", "arguments": {"a": "\\ud800"}}'), "", [("g", {"a": "\ud800"})]),
    (HERMES, tagged(LONG_NUMBER), tagged(LONG_NUMBER), []),
    (PLAIN, F, "", [("f", {"a": "}</tool_call>{"})]),
    (PLAIN, f" {G}\n", "", [("g", {})]),
    (PLAIN, "text " + G, "text " + G, []),
    (PLAIN, "{not one}", "{not one}", []),
    (PLAIN, '{"name": "h"}', '{"name": "h"}', []),
]


@pytest.mark.parametrize(("form", "text", "said", "calls"), CASES)
@given(data=st.data())
def test_however_it_is_cut(form: CallForm, text: str, said: str, calls: list, data: st.DataObject) -> None:
    borders = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[a:b] for a, b in zip([0, *borders], [*borders, len(text)], strict=True)]
    assert read(form, pieces) == (said, calls)


def test_a_call_is_told_of_when_it_is_whole_and_text_before_it_at_once() -> None:
    reader = CallReader(HERMES, {"g"})
    assert reader.push("Wait") == ("Wait", [])
    assert reader.push("<tool_call>" + G[:-1]) == ("", [])
    text, (call,) = reader.push("}")
    assert (text, call.name, call.arguments) == ("", "g", "{}")
