from __future__ import annotations

import math
from collections.abc import Iterator

import openai
import pytest

from tests.serve.fakes import alone, null_model, says, text_of
from tests.serve.live import Live, live


@pytest.fixture(scope="module")
def talking() -> Iterator[Live]:
    with live(null_model(next_token=says("a 世b"), slope=0.5)) as server:
        yield server


@pytest.fixture(scope="module")
def hashing() -> Iterator[Live]:
    with live(null_model(slope=0.05, add_bos=True)) as server:
        yield server


def client(server: Live) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)


def test_whole_answer(talking: Live) -> None:
    with client(talking) as c:
        answer = c.completions.create(model="null-bytes", prompt="go\n", temperature=0)
    assert answer.object == "text_completion"
    assert answer.id.startswith("cmpl-")
    assert answer.choices[0].text == "a 世b"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.choices[0].logprobs is None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (3, 7)


def test_stream(talking: Live) -> None:
    with client(talking) as c:
        chunks = list(
            c.completions.create(
                model="null-bytes", prompt="go\n", temperature=0, stream=True, stream_options={"include_usage": True}
            )
        )
    assert [chunk.choices[0].text for chunk in chunks[:-1]] == ["a", " ", "世", "b", ""]
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens == 7


@pytest.mark.parametrize("stream", [False, True])
def test_logprobs(talking: Live, stream: bool) -> None:
    with client(talking) as c:
        answer = c.completions.create(model="null-bytes", prompt="go\n", temperature=0, logprobs=1, stream=stream)
        shown = [chunk.choices[0].logprobs for chunk in answer] if stream else [answer.choices[0].logprobs]
    shown = [part for part in shown if part]
    tokens = ["a", " ", "bytes:\\xe4", "bytes:\\xb8", "bytes:\\x96", "b"]
    assert [token for part in shown for token in part.tokens] == tokens
    assert [offset for part in shown for offset in part.text_offset] == [0, 1, 2, 2, 2, 3]
    likely = -math.log(sum(math.exp(-0.5 * i) for i in range(260)))
    assert [p for part in shown for p in part.token_logprobs] == pytest.approx([likely] * 6, abs=1e-4)
    assert [list(top) for part in shown for top in part.top_logprobs] == [[token] for token in tokens]


def test_chosen_token_is_shown_even_where_it_is_unlikely(hashing: Live) -> None:
    body = {"prompt": "x", "temperature": 2, "seed": 4, "logprobs": 0, "max_tokens": 8}
    shown = hashing.http.post("/v1/completions", json=body).json()["choices"][0]["logprobs"]
    assert [list(top) for top in shown["top_logprobs"]] == [[token] for token in shown["tokens"]]


@pytest.mark.parametrize("prompt", ["né", ["né"], [256, *"né".encode()], [[256, *"né".encode()]]])
def test_prompt_as_text_or_tokens(hashing: Live, prompt: object) -> None:
    body = {"prompt": prompt, "temperature": 0, "max_tokens": 20}
    answer = hashing.http.post("/v1/completions", json=body).json()
    expected = alone([256, *"né".encode()], 20, slope=0.05)
    assert answer["choices"][0]["text"] == text_of(expected)
    assert answer["usage"]["prompt_tokens"] == 4


def test_sixteen_tokens_unless_asked(hashing: Live) -> None:
    answer = hashing.http.post("/v1/completions", json={"prompt": "x", "seed": 1}).json()
    assert answer["usage"]["completion_tokens"] == 16
