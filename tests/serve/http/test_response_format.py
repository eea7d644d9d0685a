from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import httpx
import openai
import pytest
from pydantic import BaseModel

from chipwise.serve.text.grammar import Grammar, Grammars
from tests.serve.fakes import null_model, says
from tests.serve.live import Live, live

HELLO = [{"role": "user", "content": "hello"}]


class Lamp(BaseModel):
    room: Literal["kitchen", "hall"]
    level: int
    on: bool | None


@pytest.fixture(scope="module")
def talking() -> Iterator[Live]:
    """Would say this sentence, whatever it is asked for."""
    with live(null_model(next_token=says('Sure: {"level": 7, "on": true} }'), slope=0.3)) as server:
        yield server


@pytest.fixture(scope="module")
def hashing() -> Iterator[Live]:
    with live(null_model(slope=0.02, max_context=512)) as server:
        yield server


def client(server: Live) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)


def schema(body: dict[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "it", "strict": True, "schema": body}}


@pytest.mark.parametrize("temperature", [0, 0.7, 2])
def test_a_parsed_answer(hashing: Live, temperature: float) -> None:
    with client(hashing) as c:
        for seed in range(5):
            answer = c.chat.completions.parse(
                model="null-bytes", messages=HELLO, response_format=Lamp, temperature=temperature, seed=seed
            )
            choice = answer.choices[0]
            if choice.finish_reason == "stop":
                assert isinstance(choice.message.parsed, Lamp)
            else:  # numbers have no end to speak of
                assert choice.message.content.startswith("{")


@pytest.mark.parametrize("stream", [False, True])
def test_what_does_not_fit_is_left_out_and_the_end_is_forced(talking: Live, stream: bool) -> None:
    body = {"type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"]}
    body["additionalProperties"] = False
    with client(talking) as c:
        answer = c.chat.completions.create(
            model="null-bytes", messages=HELLO, response_format=schema(body), temperature=0, stream=stream
        )
        if stream:
            chunks = list(answer)
            text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
            reason = chunks[-1].choices[0].finish_reason
        else:
            text, reason = answer.choices[0].message.content, answer.choices[0].finish_reason
    assert set(json.loads(text)) == {"on"}
    assert reason == "stop"


def test_any_object(hashing: Live) -> None:
    with client(hashing) as c:
        answer = c.chat.completions.create(
            model="null-bytes", messages=HELLO, response_format={"type": "json_object"}, max_tokens=200
        )
    text, reason = answer.choices[0].message.content, answer.choices[0].finish_reason
    assert text.startswith("{")
    assert reason == "length" or isinstance(json.loads(text), dict)


@pytest.mark.parametrize("beside", ["json_object", "json_schema"])
def test_a_schema_beside_json_object_is_kept_to_or_refused(talking: Live, beside: str) -> None:
    def ask(body: dict[str, Any]) -> httpx.Response:
        form = {"type": beside, "schema": body} if beside == "json_object" else schema(body)
        return talking.http.post(
            "/v1/chat/completions", json={"messages": HELLO, "response_format": form, "temperature": 0}
        )

    said = ask({"type": "object", "properties": {"a": {"const": 7}}, "required": ["a"], "additionalProperties": False})
    assert json.loads(said.json()["choices"][0]["message"]["content"]) == {"a": 7}
    refused = ask({"not": {}})
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == "unsupported_schema"
    assert refused.json()["error"]["param"].endswith("schema")


def test_stop_strings_and_log_probabilities(talking: Live) -> None:
    with client(talking) as c:
        answer = c.chat.completions.create(
            model="null-bytes",
            messages=HELLO,
            response_format=schema({"const": "one, two"}),
            temperature=0,
            stop=[", t"],
            logprobs=True,
            top_logprobs=1,
        )
    choice = answer.choices[0]
    assert (choice.message.content, choice.finish_reason) == ('"one', "stop")
    first = choice.logprobs.content[0]
    assert first.token == '"'
    # The model itself would rather have said something else.
    assert first.top_logprobs[0].token == "S"
    assert first.top_logprobs[0].logprob > first.logprob


def test_text_is_free(talking: Live) -> None:
    with client(talking) as c:
        answer = c.chat.completions.create(
            model="null-bytes", messages=HELLO, response_format={"type": "text"}, temperature=0
        )
    assert answer.choices[0].message.content.startswith("Sure")


def test_schemas_that_take_long_to_compile_keep_no_text_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()

    def slow(grammars: Grammars, text: str, where: str) -> Grammar:
        assert go_on.wait(20)
        return compile_(grammars, text, where)

    compile_ = Grammars._compile
    with live(null_model(next_token=says("hi")), max_waiting=100) as server, ThreadPoolExecutor(60) as threads:
        # The server has compiled some for itself when it is ready.
        monkeypatch.setattr(Grammars, "_compile", slow)

        def ask(i: int) -> int:
            body = {"messages": HELLO, "max_tokens": 2, "response_format": schema({"const": i})}
            return httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=30).status_code

        asking = [threads.submit(ask, i) for i in range(60)]
        try:
            time.sleep(0.5)
            for _ in range(3):
                response = server.http.post("/v1/chat/completions", json={"messages": HELLO, "max_tokens": 2})
                assert response.status_code == 200
        finally:
            go_on.set()
        assert [one.result(30) for one in asking] == [200] * 60
