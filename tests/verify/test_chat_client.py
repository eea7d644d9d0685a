from __future__ import annotations

from typing import Any

import pytest

from chipwise.errors import EngineError, InputError
from chipwise.model.queries import Query
from chipwise.verify.case import Case
from chipwise.verify.chat_client import CaseRefusedError, ChatClient, same_server
from tests.verify.chat_server import Reply, says, served

CASE = Case("a", Query(messages=({"role": "user", "content": "开灯"},)), max_tokens=7)


def test_a_case_is_asked_greedily() -> None:
    with served(lambda body, n: says(" 好 ")) as server:
        client = ChatClient(server.url + "/", api_key="secret")
        assert client.model == "first"
        assert client.answer(CASE) == "好"
        assert client.answer(Case("b", Query(prompt="hi"))) == "好"
        tool = {"type": "function", "function": {"name": "turn_on"}}
        assert client.answer(Case("c", Query(prompt="hi", tools=(tool,)))) == "好"
    assert server.asked[0] == {
        "model": "first", "messages": [{"role": "user", "content": "开灯"}], "max_tokens": 7,
        "temperature": 0, "top_p": 1, "presence_penalty": 0, "frequency_penalty": 0,
    }  # fmt: skip
    assert server.asked[1]["messages"] == [{"role": "user", "content": "hi"}]
    assert "tools" not in server.asked[1]
    assert server.asked[2]["tools"] == [tool]
    assert server.headers[0]["Authorization"] == "Bearer secret"


def test_tool_calls_become_text_that_scorers_read() -> None:
    call = {"id": "x", "type": "function", "function": {"name": "turn_on", "arguments": '{"device":"fan"}'}}
    with served(lambda body, n: says("", tool_calls=[call, call])) as server:
        answer = ChatClient(server.url, model="m").answer(CASE)
    assert answer == "\n".join(['{"name": "turn_on", "arguments": "{\\"device\\":\\"fan\\"}"}'] * 2)
    assert server.asked[0]["model"] == "m"


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ({"content": [{"type": "text", "text": "twenty"}, {"type": "text", "text": "-six"}]}, "twenty-six"),
        ({"content": [{"type": "image_url", "image_url": {}}]}, ""),
        ({"content": None, "refusal": "I cannot"}, "I cannot"),
        ({"content": None, "tool_calls": None}, ""),
        (
            {"content": None, "function_call": {"name": "turn_on", "arguments": "{}"}},
            '{"name": "turn_on", "arguments": "{}"}',
        ),
    ],
)
def test_an_answer_in_other_shapes(message: dict[str, Any], said: str) -> None:
    with served(lambda body, n: (200, {"choices": [{"message": message}]})) as server:
        assert ChatClient(server.url, model="m").answer(CASE) == said


def test_a_busy_server_is_asked_again() -> None:
    def reply(body: dict[str, Any], n: int) -> Reply:
        return says("yes") if n == 3 else (429 if n == 1 else 503, {"error": "busy"})

    with served(reply) as server:
        assert ChatClient(server.url, model="m").answer(CASE) == "yes"
    assert len(server.asked) == 3


@pytest.mark.parametrize(
    ("reply", "kind", "message"),
    [
        ((400, {"error": {"message": "context is 512"}}), CaseRefusedError, "HTTP 400: .*context is 512"),
        ((401, {}), InputError, "OPENAI_API_KEY"),
        ((404, {}), InputError, "ends in /v1"),
        ((500, {}), EngineError, "HTTP 500"),
        ((429, {}), EngineError, "HTTP 429"),
        ((200, b"<html>"), EngineError, "no JSON"),
        ((200, b"\xff\xfe"), EngineError, "no JSON"),
        ((200, {"choices": []}), EngineError, "no chat completion"),
        ((200, []), EngineError, "no chat completion"),
        ((200, {"choices": [{"message": {"content": 26}}]}), EngineError, "content is no text but int"),
        ((200, {"choices": [{"message": {"content": [3]}}]}), EngineError, "no chat completion"),
        ((200, {"choices": [{"message": {"content": "x", "tool_calls": [3]}}]}), EngineError, "no chat completion"),
    ],
)
def test_what_goes_wrong_is_said_in_one_line(reply: Reply, kind: type[Exception], message: str) -> None:
    with served(lambda body, n: reply) as server, pytest.raises(kind, match=message) as caught:
        ChatClient(server.url, model="m").answer(CASE)
    assert "\n" not in str(caught.value)
    assert type(caught.value) is kind


@pytest.mark.parametrize("key", ["a\nb", "schlüssel"])
def test_what_is_no_key(key: str) -> None:
    with pytest.raises(InputError, match="OPENAI_API_KEY holds what no key can"):
        ChatClient("http://localhost:1/v1", model="m", api_key=key)


@pytest.mark.parametrize(
    "url",
    [
        "localhost:8000",
        "file:///etc/passwd",
        "",
        "http://",
        "http://[::1",
        "http://a:b/v1",
        "http://a b/v1",
        "http://a:99999",
    ],
)
def test_what_is_no_url(url: str) -> None:
    with pytest.raises(InputError, match="is no URL"):
        ChatClient(url, model="m")


def test_a_server_that_is_not_there() -> None:
    with served(lambda body, n: says("x")) as server:
        url = server.url
    with pytest.raises(InputError, match="cannot reach the server"):
        ChatClient(url)


def test_a_server_that_hangs() -> None:
    def hang(body: dict[str, Any], n: int) -> Reply:
        import time

        time.sleep(0.5)
        return says("late")

    with served(hang) as server, pytest.raises(EngineError, match=r"no answer in 0\.1 s"):
        ChatClient(server.url, model="m", timeout_s=0.1).answer(CASE)


def test_halves_of_characters_in_an_answer_are_marked() -> None:
    with served(lambda body, n: says("a\ud83d b\U0001f600")) as server:
        assert ChatClient(server.url).answer(CASE) == "a\ufffd b\U0001f600"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("http://here:80/v1", "http://here/v2", True),
        ("https://here/v1", "https://HERE:443", True),
        ("http://here/v1", "https://here/v1", False),
        ("http://here:8000", "http://here:8001", False),
        ("http://here", "http://there", False),
        ("http://here", "here", False),
    ],
)
def test_which_urls_are_of_one_server(one: str, other: str, same: bool) -> None:
    assert same_server(one, other) is same


def test_a_redirect_is_not_followed_and_gets_no_key() -> None:
    with served(lambda body, n: says("other")) as other:
        away = {"Location": f"{other.url}/chat/completions"}
        with (
            served(lambda body, n: (302, away)) as server,
            pytest.raises(InputError, match="HTTP 302: it points to http"),
        ):
            ChatClient(server.url, model="m", api_key="secret").answer(CASE)
        assert other.asked == []


@pytest.mark.parametrize(
    "url", ["http://me:secret@here/v1", "http://here/v1?api_key=secret", "http://me:secret@here:x/"]
)
def test_a_secret_in_a_url_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(InputError) as caught:
        ChatClient(url, model="m")
    assert "secret" not in str(caught.value)


def test_a_cut_connection_is_asked_again_and_an_errors_words_are_told() -> None:
    with served(lambda body, n: says("好") if n > 1 else (0, {})) as server:
        assert ChatClient(server.url, model="m").answer(CASE) == "好"
    with (
        served(lambda body, n: (200, {"error": {"message": "out of\nmemory"}})) as server,
        pytest.raises(EngineError, match=r"no chat completion \(out of memory\)"),
    ):
        ChatClient(server.url, model="m").answer(CASE)
