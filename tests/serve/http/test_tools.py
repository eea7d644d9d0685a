from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import jsonschema
import openai
import pytest

from chipwise.model.chat_template import ChatTemplate
from tests.serve.fakes import null_model, says
from tests.serve.live import Live, live
from tests.serve.templates import HERMES_TEMPLATE, LLAMA_TEMPLATE

HELLO = [{"role": "user", "content": "hello"}]
LAMP_ARGUMENTS = {
    "type": "object",
    "properties": {"room": {"enum": ["hall", "kitchen"]}, "on": {"type": "boolean"}},
    "required": ["room", "on"],
    "additionalProperties": False,
}
LAMP = {"type": "function", "function": {"name": "set_lamp", "description": "A lamp", "parameters": LAMP_ARGUMENTS}}
TIME = {"type": "function", "function": {"name": "time"}}
STRICT = {"type": "function", "function": {**LAMP["function"], "strict": True}}
CALL = '<tool_call>\n{"name": "set_lamp", "arguments": {"room": "hall", "on": true}}\n</tool_call>'


@contextmanager
def serving(
    template: str, says_what: str, *, otlp_traces_endpoint: str | None = None, **options: Any
) -> Iterator[Live]:
    # The generation prompt ends in a line, behind which the answer begins; none of these answers holds another line.
    model = null_model(max_context=1024, next_token=says(says_what, after="\x01"), **options)
    template = ChatTemplate(template.replace("<assistant>\n", "<assistant>\n\x01"))
    with live(replace(model, chat_template=template), otlp_traces_endpoint=otlp_traces_endpoint) as server:
        yield server


@pytest.fixture(scope="module")
def calling() -> Iterator[Live]:
    with serving(HERMES_TEMPLATE, f"One moment.{CALL}", slope=0.05) as server:
        yield server


@pytest.fixture(scope="module")
def talking() -> Iterator[Live]:
    with serving(HERMES_TEMPLATE, "I would rather talk.", slope=0.05) as server:
        yield server


def ask(server: Live, **fields: Any) -> Any:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        fields = {"messages": HELLO, "tools": [LAMP, TIME], "temperature": 0, **fields}
        answer = client.chat.completions.create(model="null-bytes", **fields)
        return list(answer) if fields.get("stream") else answer.choices[0]


def test_auto_is_parsed(calling: Live) -> None:
    choice = ask(calling)
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content == "One moment."
    (call,) = choice.message.tool_calls
    assert (call.type, call.function.name) == ("function", "set_lamp")
    assert call.id.startswith("call_")
    assert json.loads(call.function.arguments) == {"room": "hall", "on": True}


def test_each_of_several_choices_has_its_own_calls(calling: Live) -> None:
    with openai.OpenAI(base_url=f"{calling.url}/v1", api_key="none", max_retries=0) as client:
        fields = {"model": "null-bytes", "messages": HELLO, "tools": [LAMP, TIME], "temperature": 0, "n": 2}
        whole = client.chat.completions.create(**fields).choices
        chunks = list(client.chat.completions.create(**fields, stream=True))
    assert [choice.finish_reason for choice in whole] == ["tool_calls", "tool_calls"]
    assert len({choice.message.tool_calls[0].id for choice in whole}) == 2
    parts = [chunk.choices[0] for chunk in chunks]
    for index in range(2):
        deltas = [call for part in parts if part.index == index for call in part.delta.tool_calls or []]
        assert [delta.index for delta in deltas] == [0, 0]
        assert json.loads(deltas[1].function.arguments) == {"room": "hall", "on": True}


def test_none_calls_nothing(calling: Live) -> None:
    choice = ask(calling, tool_choice="none")
    assert choice.message.content == f"One moment.{CALL}"
    assert choice.message.tool_calls is None
    assert choice.finish_reason == "stop"


def test_stream(calling: Live) -> None:
    chunks = ask(calling, stream=True)
    deltas = [chunk.choices[0].delta for chunk in chunks]
    assert "".join(delta.content or "" for delta in deltas) == "One moment."
    opening, rest = [call for delta in deltas for call in delta.tool_calls or ()]
    assert (opening.index, opening.type, opening.function.name, opening.function.arguments) == (
        0,
        "function",
        "set_lamp",
        "",
    )
    assert (rest.index, rest.id) == (0, None)
    assert json.loads(rest.function.arguments) == {"room": "hall", "on": True}
    assert chunks[-1].choices[0].finish_reason == "tool_calls"


@pytest.mark.parametrize("temperature", [0, 1.5])
def test_required_and_named_are_enforced(talking: Live, temperature: float) -> None:
    for choice in ("required", {"type": "function", "function": {"name": "set_lamp"}}):
        found = ask(talking, tool_choice=choice, temperature=temperature, seed=3, parallel_tool_calls=False)
        assert found.finish_reason == "tool_calls"
        assert found.message.content is None
        (call,) = found.message.tool_calls
        schema = LAMP_ARGUMENTS if call.function.name == "set_lamp" else {"type": "object", "maxProperties": 0}
        jsonschema.validate(json.loads(call.function.arguments), schema)
        if choice != "required":
            assert call.function.name == "set_lamp"


def test_required_stream_says_no_text(talking: Live) -> None:
    chunks = ask(talking, stream=True, tool_choice="required", tools=[LAMP], parallel_tool_calls=False)
    assert not any(chunk.choices[0].delta.content for chunk in chunks)
    calls = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or ()]
    jsonschema.validate(json.loads("".join(call.function.arguments for call in calls)), LAMP_ARGUMENTS)


def test_a_strict_tool_is_enforced_where_the_model_begins_a_call() -> None:
    wrong = '<tool_call>\n{"name": "set_lamp", "arguments": {"room": "garden"}}\n</tool_call>'
    with serving(HERMES_TEMPLATE, f"Well. {wrong}", slope=0.05) as server:
        choice = ask(server, tools=[STRICT], parallel_tool_calls=False, max_tokens=400)
    assert choice.message.content.startswith("Well.")
    (call,) = choice.message.tool_calls
    jsonschema.validate(json.loads(call.function.arguments), LAMP_ARGUMENTS)


def test_a_strict_tool_leaves_text_alone(talking: Live) -> None:
    assert ask(talking, tools=[STRICT]).message.content == "I would rather talk."


def test_an_answer_is_a_call_or_json_if_both_are_asked_for(talking: Live) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "it", "schema": {"const": [1]}}}
    choice = ask(talking, response_format=form, parallel_tool_calls=False)
    assert choice.message.tool_calls or json.loads(choice.message.content) == [1]


def test_a_schema_that_cannot_be_enforced_names_its_tool(talking: Live) -> None:
    odd = {"type": "function", "function": {"name": "odd", "parameters": {"type": "object", "not": {}}}}
    for fields in (
        {"tool_choice": "required"},
        {"tools": [LAMP, {**odd, "function": {**odd["function"], "strict": True}}]},
    ):
        with pytest.raises(openai.BadRequestError) as caught:
            ask(talking, **{"tools": [LAMP, odd], **fields})
        assert caught.value.param == "tools[1].function.parameters"
    assert ask(talking, tools=[LAMP, odd]).message.content == "I would rather talk."


def test_the_template_is_told_of_tools_calls_and_results(talking: Live) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "set_lamp", "arguments": '{"room":"hall"}'}}
    messages = [
        *HELLO,
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
    ]
    body = {"messages": messages, "tools": [LAMP], "max_tokens": 1}
    response = talking.http.post("/v1/chat/completions", json=body).json()
    template = talking.service.model.chat_template
    shown = template.render(
        [
            *HELLO,
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"function": {"name": "set_lamp", "arguments": {"room": "hall"}}}],
            },
            {"role": "tool", "content": "done"},
        ],
        tools=[LAMP],
    )
    assert '{"name": "set_lamp", "arguments": {"room": "hall"}}' in shown
    assert response["usage"]["prompt_tokens"] == len(talking.service.model.tokenizer.encode(shown))


@pytest.mark.parametrize("half", ["\\ud800", "\\udc00\\ud800"])
def test_half_a_surrogate_pair_in_a_past_call_is_shown_as_unknown(talking: Live, half: str) -> None:
    # A model can write one, as an escape; the client sends back what it was told.
    def prompt_tokens(written: str) -> int:
        call = {"id": "c1", "type": "function", "function": {"name": "time", "arguments": f'{{"a": "{written}"}}'}}
        messages = [*HELLO, {"role": "assistant", "tool_calls": [call]}]
        response = talking.http.post("/v1/chat/completions", json={"messages": messages, "max_tokens": 1})
        assert response.status_code == 200
        return int(response.json()["usage"]["prompt_tokens"])

    assert prompt_tokens(half) == prompt_tokens("\ufffd" * (len(half) // 6))


@pytest.mark.parametrize("choice", ["auto", "none"])
def test_too_many_tools_are_refused(talking: Live, choice: str) -> None:
    tools = [{"type": "function", "function": {"name": f"t{i}"}} for i in range(60_000)]
    body = {"messages": HELLO, "max_tokens": 1, "tools": tools, "tool_choice": choice}
    response = talking.http.post("/v1/chat/completions", json=body)
    assert (response.status_code, response.json()["error"]["param"]) == (400, "tools")
    assert "holds 60000 tools, at most 512" in response.json()["error"]["message"]


def test_plain_json_calls() -> None:
    with serving(LLAMA_TEMPLATE, '{"name": "time", "parameters": {}}', slope=0.05) as server:
        choice = ask(server)
        assert [call.function.name for call in choice.message.tool_calls] == ["time"]
        named = ask(server, tool_choice={"type": "function", "function": {"name": "set_lamp"}})
        jsonschema.validate(json.loads(named.message.tool_calls[0].function.arguments), LAMP_ARGUMENTS)


def test_a_call_that_is_cut_is_text(calling: Live) -> None:
    choice = ask(calling, max_tokens=40)
    assert choice.finish_reason == "length"
    assert choice.message.tool_calls is None
    assert choice.message.content == f"One moment.{CALL}"[:40]


def test_log_probabilities_cover_the_whole_answer(calling: Live) -> None:
    whole = ask(calling, logprobs=True)
    streamed = ask(calling, logprobs=True, stream=True)
    said = "".join(entry.token for entry in whole.logprobs.content)
    assert said == f"One moment.{CALL}"
    chunks = [chunk.choices[0].logprobs for chunk in streamed]
    assert "".join(entry.token for logprobs in chunks if logprobs for entry in logprobs.content or ()) == said
