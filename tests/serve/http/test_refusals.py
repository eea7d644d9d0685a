"""Requests that are refused: each with the right status and a message that names the field and what to do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import openai
import pytest

from chipwise.model.chat_template import ChatTemplate
from tests.serve.fakes import null_model, says
from tests.serve.live import Live, live

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
HELLO = [{"role": "user", "content": "hello"}]
PNG = {"type": "image_url", "image_url": {"url": "data:image/png;base64,"}}
SCHEMA = "response_format.json_schema.schema"
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CALLED = {"role": "assistant", "tool_calls": [CALL]}
BAD_CALL = {**CALL, "function": {"name": "f", "arguments": "[1]"}}
BAD_PATH = "messages[0].tool_calls[0].function.arguments"
TOOL = {"type": "function", "function": {"name": "f", "parameters": {}}}


@pytest.fixture(scope="module")
def server() -> Iterator[Live]:
    with live(null_model(max_context=64, next_token=says("ok")), max_body_bytes=20_000) as running:
        yield running


def chat(*messages: Any, **fields: Any) -> dict[str, Any]:
    return {"messages": list(messages) or HELLO, "max_tokens": 4, **fields}


def text(prompt: Any = "hello\n", **fields: Any) -> dict[str, Any]:
    return {"prompt": prompt, "max_tokens": 4, **fields}


def schema(body: Any) -> dict[str, Any]:
    return chat(response_format={"type": "json_schema", "json_schema": {"name": "a", "schema": body}})


# path, body, param, part of the message
REFUSED: list[tuple[str, Any, str | None, str]] = [
    (CHAT, {}, "messages", "field required"),
    (CHAT, {"messages": []}, "messages", "at least 1 item"),
    (CHAT, {"messages": "hello"}, "messages", "valid array"),
    (CHAT, [], None, "body: input should be an object"),
    (CHAT, "hello", None, "body: input should be an object"),
    (CHAT, chat({"role": "king", "content": "x"}), "messages[0].role", "'user'"),
    (CHAT, chat({"role": "tool", "content": "x"}), "messages[0].tool_call_id", "no call"),
    (CHAT, chat(CALLED, {"role": "tool", "content": "x", "tool_call_id": "d"}), "messages[1].tool_call_id", "no call"),
    (CHAT, chat({**CALLED, "role": "user", "content": ""}), "messages[0].tool_calls", "only an assistant"),
    (CHAT, chat(CALLED), "tools", "no place for tools"),
    (CHAT, chat({"content": "x"}), "messages[0].role", "field required"),
    (CHAT, chat({"role": "user"}), "messages[0].content", "field required"),
    (CHAT, chat({"role": "user", "content": None}), "messages[0].content", "should be a string"),
    (CHAT, chat({"role": "user", "content": 5}), "messages[0].content", "should be a string"),
    (CHAT, chat({"role": "user", "content": []}), "messages[0].content", "should be a string"),
    (CHAT, chat({"role": "user", "content": [PNG]}), "messages[0].content", "part 0 is of type 'image_url'"),
    (CHAT, chat({"role": "user", "content": ["x"]}), "messages[0].content", "part 0 is of type unknown"),
    (CHAT, chat({"role": "user", "content": [{"type": "text"}]}), "messages[0].content", "part 0 has no text"),
    (CHAT, chat({"role": "assistant", "tool_calls": [TOOL]}), "messages[0].tool_calls[0].id", "field required"),
    (CHAT, chat({"role": "assistant", "tool_calls": [BAD_CALL]}), BAD_PATH, "a JSON object as a string"),
    (CHAT, chat({"role": "user", "content": "refuse"}), None, "refuses these messages: not this"),
    (CHAT, chat({"role": "user", "content": "x" * 100}), None, "has 107 tokens, the context holds 64"),
    (CHAT, chat({"role": "user", "content": "x" * 999}), None, "has more than 128 tokens, the context holds 64"),
    (CHAT, chat(max_tokens=0), "max_tokens", "greater than or equal to 1"),
    (CHAT, chat(max_tokens="5"), "max_tokens", "valid integer"),
    (CHAT, chat(max_tokens=1.5), "max_tokens", "valid integer"),
    (CHAT, chat(max_tokens=True), "max_tokens", "valid integer"),
    (CHAT, chat(max_completion_tokens=-1), "max_completion_tokens", "greater"),
    (CHAT, chat(temperature=-0.1), "temperature", "greater"),
    (CHAT, chat(temperature=2.1), "temperature", "less"),
    (CHAT, chat(temperature="hot"), "temperature", "valid number"),
    (CHAT, chat(top_p=1.1), "top_p", "less"),
    (CHAT, chat(seed=2**63), "seed", "less"),
    (CHAT, chat(seed="x"), "seed", "valid integer"),
    (CHAT, chat(stream="yes"), "stream", "valid boolean"),
    (CHAT, chat(stream_options={"include_usage": True}), "stream_options", "only a stream"),
    (CHAT, chat(stream=True, stream_options={"include_usage": 1}), "stream_options.include_usage", "boolean"),
    (CHAT, chat(stop=""), "stop", "empty string"),
    (CHAT, chat(stop=["a", ""]), "stop", "empty string"),
    (CHAT, chat(stop=["a", 1]), "stop", "a list of strings"),
    (CHAT, chat(stop={"a": 1}), "stop", "a list of strings"),
    (CHAT, chat(stop=list("abcde")), "stop", "holds 5 strings, at most 4"),
    (CHAT, chat(stop="x" * 1025), "stop", "more than 1024 characters"),
    (CHAT, chat(top_logprobs=2), "top_logprobs", "needs logprobs"),
    (CHAT, chat(logprobs=True, top_logprobs=21), "top_logprobs", "less"),
    (CHAT, chat(logprobs=2), "logprobs", "valid boolean"),
    (CHAT, chat(n=5), "n", "5 choices are asked for, at most 4 are made: this server runs 4 at once"),
    (TEXT, text(n=10**9), "n", "at most 4"),
    (CHAT, chat(n=0), "n", "greater than or equal to 1"),
    (CHAT, chat(n=True), "n", "valid integer"),
    (CHAT, chat(tools=[TOOL]), "tools", "no place for tools"),
    (CHAT, chat(tools=[{"type": "web_search"}]), "tools[0].type", "'function'"),
    (CHAT, chat(tools=[{"type": "function", "function": {"name": "a b"}}]), "tools[0].function.name", "pattern"),
    (CHAT, chat(tools=[TOOL, TOOL]), "tools[1].function.name", "two tools named 'f'"),
    (CHAT, chat(tool_choice="required"), "tool_choice", "no tools to call"),
    (CHAT, chat(tool_choice="maybe"), "tool_choice", "should be 'none'"),
    (CHAT, chat(tools=[TOOL], tool_choice={**TOOL, "function": {"name": "g"}}), "tool_choice", "no tool named 'g'"),
    (TEXT, text(tools=[TOOL]), "tools", "not support"),
    (CHAT, chat(functions=[{}]), "functions", "not support"),
    (CHAT, chat(response_format={"type": "yaml"}), "response_format.type", "'json_object'"),
    (CHAT, chat(response_format={"type": "json_schema"}), "response_format", "needs the field json_schema"),
    (CHAT, schema(None), SCHEMA, "should be an object"),
    (CHAT, schema({"type": "array", "uniqueItems": True}), SCHEMA, 'Unimplemented keys: ["uniqueItems"]'),
    (CHAT, schema({"not": {}, "x-guidance": {"lenient": True}}), SCHEMA, 'Unimplemented keys: ["not"]'),
    (CHAT, schema({"type": "string", "format": "phone"}), SCHEMA, "Unknown format: phone"),
    (CHAT, schema({"type": "string", "pattern": "(?=a)b"}), SCHEMA, "look-around"),
    (CHAT, schema({"$ref": "http://localhost/x"}), SCHEMA, "does not fetch"),
    (CHAT, schema({"enum": []}), SCHEMA, "Unsatisfiable"),
    (CHAT, schema({"type": "fish"}), SCHEMA, "Invalid type: fish"),
    (CHAT, schema({"oneOf": [{"type": "integer"}, {"minimum": 0}]}), SCHEMA, "oneOf"),
    (TEXT, text(response_format={"type": "json_object"}), "response_format", "not support"),
    (CHAT, chat(logit_bias={"5": 100}), "logit_bias", "not support"),
    (CHAT, chat(presence_penalty=0.5), "presence_penalty", "not support"),
    (CHAT, chat(frequency_penalty=-0.5), "frequency_penalty", "not support"),
    (CHAT, chat(modalities=["text", "audio"]), "modalities", "not support"),
    (CHAT, chat(top_k=40), "top_k", "not support"),
    (CHAT, chat(include_stop_str_in_output=True), "include_stop_str_in_output", "not support"),
    (CHAT, chat(skip_special_tokens=False), "skip_special_tokens", "not support"),
    (TEXT, text(truncate_prompt_tokens=5), "truncate_prompt_tokens", "not support"),
    (TEXT, text(regex="a+"), "regex", "not support"),
    (CHAT, chat(guided_json={"type": "object"}), "guided_json", "not support"),
    (TEXT, {}, "prompt", "field required"),
    (TEXT, text(None), "prompt", "should be a string"),
    (TEXT, text(5), "prompt", "should be a string"),
    (TEXT, text([]), "prompt", "should be a string"),
    (TEXT, text([True]), "prompt", "should be a string"),
    (TEXT, text([[1.5]]), "prompt", "should be a string"),
    (TEXT, text(["a", "b"]), "prompt", "holds 2 prompts"),
    (TEXT, text([[1], [2]]), "prompt", "holds 2 prompts"),
    (TEXT, text([1, 260]), "prompt", "prompt[1]: the token id 260 is none"),
    (TEXT, text([-1]), "prompt", "the token id -1 is none"),
    (TEXT, text([10**30]), "prompt", "is none of the model's"),
    (TEXT, text(""), None, "the prompt has no tokens"),
    (TEXT, text("x" * 64), None, "the prompt has 64 tokens, the context holds 64"),
    (TEXT, text("x" * 999), None, "prompt of 999 characters has more than 128 tokens, the context holds 64"),
    (TEXT, text(logprobs=6), "logprobs", "less"),
    (TEXT, text(logprobs=True), "logprobs", "valid integer"),
    (TEXT, text(echo=True), "echo", "not support"),
    (TEXT, text(suffix="x"), "suffix", "not support"),
    (TEXT, text(best_of=2), "best_of", "not support"),
]


def _name(case: Any) -> str | None:
    return json.dumps(case)[:60] if isinstance(case, (dict, list)) else None


@pytest.mark.parametrize(("path", "body", "param", "message"), REFUSED, ids=_name)
def test_bad_request(server: Live, path: str, body: Any, param: str | None, message: str) -> None:
    response = server.http.post(path, json=body)
    error = response.json()["error"]
    assert response.status_code == 400, error
    assert message in error["message"]
    assert error["param"] == param
    assert error["type"] == "invalid_request_error"
    assert set(error) == {"message", "type", "param", "code"}
    assert "\n" not in error["message"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'{"messages": [}',
        b"\xff\xfe{}",
        b'{"messages": [{"role": "user", "content": "\xff"}]}',
        b'{"messages": [{"role": "user", "content": "\\ud800"}]}',
        b'{"messages": ' + b"[" * 5000 + b"]" * 5000 + b"}",
        b"null",
        b'{"messages": [{"role": "user", "content": "x"}], "temperature": NaN}',
        b'{"messages": [{"role": "user", "content": "x"}], "temperature": Infinity}',
        b'{"messages": [{"role": "user", "content": "x"}], "temperature": 1e999}',
    ],
    ids=lambda body: repr(body[:50]),
)
def test_bodies_that_are_no_json(server: Live, body: bytes) -> None:
    response = server.http.post(CHAT, content=body)
    assert response.status_code == 400
    assert response.json()["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages[0].tool_calls[0].function.name }}",
        "{{ messages[3]['role'] + 'x' }}",
        "{{ messages[0]['content'] + 1 }}",
        "{{ messages[0].content | round }}",
        "{% for part in messages[0].content %}{{ part['text'] + '' }}{% endfor %}",
    ],
)
def test_template_that_fails_on_the_messages(source: str) -> None:
    with live(replace(null_model(next_token=says("ok")), chat_template=ChatTemplate(source))) as server:
        response = server.http.post(CHAT, json=chat())
    error = response.json()["error"]
    assert response.status_code == 400
    assert error["message"].startswith("the chat template fails on these messages (")
    assert "\n" not in error["message"]
    assert (error["type"], error["param"]) == ("invalid_request_error", "messages")


def test_context_overflow_has_its_code(server: Live) -> None:
    with (
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="none") as client,
        pytest.raises(openai.BadRequestError) as caught,
    ):
        client.chat.completions.create(model="null-bytes", messages=[{"role": "user", "content": "x" * 100}])
    assert caught.value.code == "context_length_exceeded"


@pytest.mark.parametrize("path", [CHAT, TEXT])
def test_unknown_model(server: Live, path: str) -> None:
    body = {**(chat() if path == CHAT else text()), "model": "gpt-4"}
    response = server.http.post(path, json=body)
    error = response.json()["error"]
    assert response.status_code == 404
    assert (error["code"], error["param"]) == ("model_not_found", "model")
    assert "'gpt-4'" in error["message"]
    assert "'null-bytes'" in error["message"]


def test_neutral_values_and_unknown_fields_pass(server: Live) -> None:
    neutral = {
        "n": 1,
        "tools": [],
        "tool_choice": "none",
        "response_format": {"type": "text"},
        "logit_bias": {},
        "presence_penalty": 0.0,
        "frequency_penalty": None,
        "top_k": -1,
        "stop": None,
        "user": "me",
        "metadata": {"a": "b"},
        "store": False,
        "parallel_tool_calls": True,
        "never_heard_of": [1, 2],
    }
    response = server.http.post(CHAT, json=chat(temperature=0, **neutral))
    assert response.json()["choices"][0]["message"]["content"] == "ok"


def test_unknown_route(server: Live) -> None:
    response = server.http.get("/v1/images")
    assert response.status_code == 404
    assert response.json()["error"]["message"] == "no route GET /v1/images"


def test_a_slash_too_many_is_no_redirect(server: Live) -> None:
    response = server.http.get(f"{CHAT}/")
    assert response.status_code == 404
    assert response.json()["error"]["message"] == f"no route GET {CHAT}/"


def test_wrong_method(server: Live) -> None:
    response = server.http.get(CHAT)
    assert response.status_code == 405
    assert response.headers["allow"] == "POST"
    assert response.json()["error"]["code"] == "method_not_allowed"


@pytest.mark.parametrize("declared", [True, False])
def test_body_too_large(server: Live, declared: bool) -> None:
    body = json.dumps(chat({"role": "user", "content": "x" * 3_000_000})).encode()
    parts = body if declared else (body[i : i + 5000] for i in range(0, len(body), 5000))
    response = server.http.post(CHAT, content=parts)
    assert response.status_code == 413
    assert "larger than the 20000 bytes" in response.json()["error"]["message"]


def test_server_still_works_after_all_that(server: Live) -> None:
    response = server.http.post(TEXT, json=text(temperature=0))
    assert response.json()["choices"][0]["text"] == "ok"
    assert server.metric("chipwise_running_requests") == 0
    before = server.metric('chipwise_requests_total{outcome="invalid"}')
    server.http.post(TEXT, json=text(n=5))
    assert server.metric('chipwise_requests_total{outcome="invalid"}') == before + 1


def test_memory_that_a_long_text_was_read_in_is_given_back(server: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[int] = []
    monkeypatch.setattr("chipwise.serve.exchange.service.give_back_what_is_free", lambda: given.append(1))
    for chars, times in ((100, 0), (10_000, 1)):
        body = {"messages": [{"role": "user", "content": "x" * chars}]}
        assert server.http.post(CHAT, json=body).json()["error"]["code"] == "context_length_exceeded"
        assert len(given) == times
