from __future__ import annotations

import json
import math
from collections.abc import Iterator

import httpx
import openai
import pytest

from chipwise.errors import RequestError
from chipwise.serve.api.chat import ChatFields
from chipwise.serve.http.fields import read_form
from tests.serve.fakes import alone, null_model, says, text_of
from tests.serve.live import Live, live

HELLO = [{"role": "user", "content": "hello"}]


@pytest.fixture(scope="module")
def talking() -> Iterator[Live]:
    """Answers every chat with the same sentence."""
    with live(null_model(next_token=says("Grüße, 世界 🦊!"), slope=0.5)) as server:
        yield server


@pytest.fixture(scope="module")
def hashing() -> Iterator[Live]:
    """Answers with what follows from the whole prompt."""
    with live(null_model(slope=0.05, max_context=512)) as server:
        yield server


def client(server: Live) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)


def events(response: httpx.Response) -> list[dict]:
    parts = response.text.split("\n\n")
    assert parts[-1] == ""
    assert parts[-2] == "data: [DONE]"
    assert all(part.startswith("data: ") for part in parts[:-1])
    return [json.loads(part.removeprefix("data: ")) for part in parts[:-2]]


def test_whole_answer(talking: Live) -> None:
    with client(talking) as c:
        answer = c.chat.completions.create(model="null-bytes", messages=HELLO, temperature=0)
    assert answer.choices[0].message.content == "Grüße, 世界 🦊!"
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.choices[0].logprobs is None
    assert answer.object == "chat.completion"
    assert answer.id.startswith("chatcmpl-")
    assert answer.model == "null-bytes"
    assert answer.system_fingerprint == "fp_test"
    assert answer.usage.prompt_tokens == len("<user>hello\n")
    assert answer.usage.completion_tokens == len("Grüße, 世界 🦊!".encode()) + 1
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer.usage.prompt_tokens_details.cached_tokens == 0


def test_stream_never_cuts_a_character(talking: Live) -> None:
    with client(talking) as c:
        stream = list(c.chat.completions.create(model="null-bytes", messages=HELLO, temperature=0, stream=True))
    assert stream[0].choices[0].delta.role == "assistant"
    assert stream[0].choices[0].delta.content == ""
    pieces = [chunk.choices[0].delta.content for chunk in stream[1:-1]]
    assert pieces == list("Grüße, 世界 🦊!")
    assert stream[-1].choices[0].finish_reason == "stop"
    assert stream[-1].choices[0].delta.content is None
    assert {chunk.id for chunk in stream} == {stream[0].id}
    assert all(chunk.usage is None for chunk in stream)


def test_stream_on_the_wire(talking: Live) -> None:
    body = {"messages": HELLO, "stream": True, "max_tokens": 1, "temperature": 0}
    response = talking.http.post("/v1/chat/completions", json=body)
    assert response.headers["content-type"].startswith("text/event-stream")
    first, second, last = events(response)
    assert response.headers["x-request-id"] == first["id"]
    assert first["object"] == "chat.completion.chunk"
    choice = {"index": 0, "logprobs": None, "finish_reason": None}
    assert first["choices"] == [{**choice, "delta": {"role": "assistant", "content": "", "refusal": None}}]
    assert second["choices"] == [{**choice, "delta": {"content": "G"}}]
    assert last["choices"] == [{**choice, "delta": {}, "finish_reason": "length"}]
    assert "usage" not in last


def test_stream_with_usage(talking: Live) -> None:
    body = {"messages": HELLO, "stream": True, "stream_options": {"include_usage": True}, "max_tokens": 2}
    chunks = events(talking.http.post("/v1/chat/completions", json=body))
    assert all(chunk["usage"] is None for chunk in chunks[:-1])
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["completion_tokens"] == 2


@pytest.mark.parametrize("stream", [False, True])
def test_stop_strings(talking: Live, stream: bool) -> None:
    with client(talking) as c:
        answer = c.chat.completions.create(
            model="null-bytes", messages=HELLO, temperature=0, stop=["界 ", "nowhere"], stream=stream
        )
        if stream:
            chunks = list(answer)
            text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
            reason = chunks[-1].choices[0].finish_reason
        else:
            text, reason = answer.choices[0].message.content, answer.choices[0].finish_reason
    assert (text, reason) == ("Grüße, 世", "stop")


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_max_tokens(talking: Live, name: str) -> None:
    with client(talking) as c:
        answer = c.chat.completions.create(model="null-bytes", messages=HELLO, temperature=0, **{name: 3})
    # The third token is the first half of a letter.
    assert answer.choices[0].message.content == "Gr"
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage.completion_tokens == 3


@pytest.mark.parametrize("stream", [False, True])
def test_logprobs(talking: Live, stream: bool) -> None:
    with client(talking) as c:
        answer = c.chat.completions.create(
            model="null-bytes",
            messages=HELLO,
            temperature=0,
            logprobs=True,
            top_logprobs=2,
            max_tokens=4,
            stream=stream,
        )
        shown = [chunk.choices[0].logprobs for chunk in answer] if stream else [answer.choices[0].logprobs]
    entries = [entry for part in shown if part for entry in part.content]
    assert [entry.token for entry in entries] == ["G", "r", "bytes:\\xc3", "bytes:\\xbc"]
    assert [entry.bytes for entry in entries] == [[b] for b in "Grü".encode()]
    total = math.log(sum(math.exp(-0.5 * i) for i in range(260)))
    for entry in entries:
        assert entry.logprob == pytest.approx(-total, abs=1e-4)
        assert [top.logprob for top in entry.top_logprobs] == pytest.approx([-total, -total - 0.5], abs=1e-4)
        assert entry.top_logprobs[0].token == entry.token


def test_logprobs_of_an_id_without_a_token() -> None:
    body = {"messages": HELLO, "temperature": 0, "logprobs": True, "top_logprobs": 1, "max_tokens": 2}
    with live(null_model(next_token=lambda history: 258)) as server:
        choice = server.http.post("/v1/chat/completions", json=body).json()["choices"][0]
    assert choice["message"]["content"] == ""
    assert [(entry["token"], entry["bytes"]) for entry in choice["logprobs"]["content"]] == [("", []), ("", [])]


def test_seed_repeats(hashing: Live) -> None:
    def say(seed: int | None) -> str:
        with client(hashing) as c:
            answer = c.chat.completions.create(
                model="null-bytes", messages=HELLO, seed=seed, temperature=1.2, top_p=0.9, max_tokens=40
            )
        return answer.choices[0].message.content

    assert say(7) == say(7)
    assert len({say(7), say(8), say(None)}) == 3


def test_messages_reach_the_model_through_the_template(hashing: Live) -> None:
    messages = [
        {"role": "developer", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "两"}]},
        {"role": "assistant", "content": None},
        {"role": "user", "content": "three", "name": "Ann"},
    ]
    body = {"messages": messages, "temperature": 0, "max_tokens": 30}
    answer = hashing.http.post("/v1/chat/completions", json=body).json()
    prompt = "<system>be brief\n<user>one\n两\n<assistant>\n<user>three\n"
    said = alone(prompt.encode(), 30, slope=0.05)
    assert answer["choices"][0]["message"]["content"] == text_of(said)
    assert answer["usage"]["prompt_tokens"] == len(prompt.encode())


def test_answer_ends_where_the_context_does(hashing: Live) -> None:
    messages = [{"role": "user", "content": "x" * 480}]
    body = {"messages": messages, "temperature": 1, "max_tokens": 10_000, "seed": 1}
    answer = hashing.http.post("/v1/chat/completions", json=body).json()
    assert answer["usage"]["total_tokens"] <= 512
    if answer["choices"][0]["finish_reason"] == "length":
        assert answer["usage"]["total_tokens"] == 512


def test_model_without_a_template() -> None:
    with live(null_model(chat=False)) as server:
        response = server.http.post("/v1/chat/completions", json={"messages": HELLO})
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "no_chat_template"


def test_more_messages_than_any_context_holds_are_refused() -> None:
    message = '{"role":"user","content":"x"}'
    assert len(read_form(ChatFields, f'{{"messages":[{",".join([message] * 32768)}]}}'.encode()).messages) == 32768
    with pytest.raises(RequestError, match="at most 32768 items"):
        read_form(ChatFields, f'{{"messages":[{",".join([message] * 32769)}]}}'.encode())
