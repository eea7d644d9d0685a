"""Several answers to one prompt: ``n``."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import openai
import pytest

from chipwise.engine.null import WallClock
from tests.serve.fakes import null_model, says
from tests.serve.live import Live, live

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
PROMPT = "a prompt of a hundred tokens".ljust(99, ".") + "\n"
RANDOM = {"temperature": 1.3, "max_tokens": 20, "seed": 7}


@pytest.fixture(scope="module")
def server() -> Iterator[Live]:
    """Answers with what follows from the whole prompt; four at once and one more that is urgent."""
    with live(null_model(6, slope=0.05), reserved_slots=1, parking_slots=1) as running:
        yield running


def client(server: Live) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)


def chat(server: Live, **fields) -> list[str]:
    """The choices' texts by index, whole or put together from a stream."""
    with client(server) as c:
        answer = c.chat.completions.create(
            model="null-bytes", messages=[{"role": "user", "content": PROMPT}], **{**RANDOM, **fields}
        )
        if not fields.get("stream"):
            assert [choice.index for choice in answer.choices] == list(range(fields.get("n", 1)))
            assert {choice.finish_reason for choice in answer.choices} <= {"stop", "length"}
            return [choice.message.content for choice in answer.choices]
        texts, ends, roles = [""] * fields["n"], [0] * fields["n"], [0] * fields["n"]
        for chunk in answer:
            (choice,) = chunk.choices
            texts[choice.index] += choice.delta.content or ""
            ends[choice.index] += choice.finish_reason is not None
            roles[choice.index] += choice.delta.role == "assistant"
    assert ends == roles == [1] * fields["n"]
    return texts


def test_choices_differ_and_repeat_with_their_seed(server: Live) -> None:
    four = chat(server, n=4)
    assert len(set(four)) == 4
    assert four == chat(server, n=4) == chat(server, n=4, stream=True)
    # The first is that of a request for one; more choices change none that were there.
    assert chat(server, n=1) == chat(server) == four[:1]
    assert chat(server, n=2) == four[:2]
    assert chat(server, n=2, seed=8)[1] not in four
    assert chat(server, n=2, seed=None) != chat(server, n=2, seed=None)


def test_all_but_the_first_take_the_prompt_over_and_it_is_counted_once() -> None:
    with live(null_model(5, slope=0.05), parking_slots=1) as server:
        body = {"prompt": PROMPT, "n": 4, **RANDOM}
        answer = server.http.post(TEXT, json=body).json()
        usage, completed = answer["usage"], server.metric("chipwise_generated_tokens_total")
        assert usage["prompt_tokens"] == 100
        assert usage["completion_tokens"] == completed
        assert usage["total_tokens"] == 100 + completed
        assert usage["prompt_tokens_details"]["cached_tokens"] == 0
        # The last two tokens of a prompt are always fed.
        assert server.metric("chipwise_prompt_tokens_total") == 100 + 3 * 2
        assert server.metric("chipwise_reused_tokens_total") == 3 * 98
        again = server.http.post(TEXT, json=body).json()
        assert [choice["text"] for choice in again["choices"]] == [choice["text"] for choice in answer["choices"]]
        assert again["usage"]["prompt_tokens_details"]["cached_tokens"] == 98


def test_stream_ends_with_the_counts_of_all(server: Live) -> None:
    body = {"prompt": PROMPT, "n": 3, "stream": True, "stream_options": {"include_usage": True}, **RANDOM}
    *parts, done, rest = server.http.post(TEXT, json=body).text.split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    chunks = [json.loads(part.removeprefix("data: ")) for part in parts]
    assert [chunk["usage"] is None for chunk in chunks] == [True] * (len(chunks) - 1) + [False]
    whole = server.http.post(TEXT, json={"prompt": PROMPT, "n": 3, **RANDOM}).json()
    assert {**chunks[-1]["usage"], "prompt_tokens_details": None} == {**whole["usage"], "prompt_tokens_details": None}
    for choice in whole["choices"]:
        texts = [c["text"] for chunk in chunks for c in chunk["choices"] if c["index"] == choice["index"]]
        assert "".join(texts) == choice["text"]


def test_each_choice_has_its_own_logprobs_and_end() -> None:
    body = {"messages": [{"role": "user", "content": "x"}], "n": 2, "temperature": 0, "logprobs": True}
    with live(null_model(next_token=says("ok"))) as server:
        choices = server.http.post(CHAT, json=body).json()["choices"]
    assert [choice["message"]["content"] for choice in choices] == ["ok", "ok"]
    assert [[entry["token"] for entry in choice["logprobs"]["content"]] for choice in choices] == [["o", "k"]] * 2
    assert [choice["finish_reason"] for choice in choices] == ["stop", "stop"]


def test_a_client_that_leaves_gives_all_choices_up() -> None:
    model = null_model(5, 100_000, next_token=lambda history: ord("x"), clock=WallClock(), decode_s=0.002)
    body = {"prompt": PROMPT, "n": 3, "max_tokens": 90_000, "stream": True}
    with live(model, parking_slots=1) as server:
        with server.http.stream("POST", TEXT, json=body) as response:
            lines = response.iter_lines()
            seen: set[int] = set()
            while seen != {0, 1, 2}:
                line = next(lines)
                if line:
                    seen |= {choice["index"] for choice in json.loads(line.removeprefix("data: "))["choices"]}
        server.wait(lambda: server.metric("chipwise_running_requests") == 0)
        assert server.metric('chipwise_requests_total{outcome="cancelled"}') == 3


@pytest.mark.parametrize("stream", [False, True])
def test_a_choice_that_fails_ends_the_response(stream: bool) -> None:
    """The second choice's prefill fails (step 2: the first has fed its prompt and decoded a token by then)."""
    model = null_model(4, 100_000, next_token=lambda history: ord("x"), fail_steps=frozenset({2}))
    body = {"prompt": "go\n" * 10, "n": 2, "max_tokens": 90_000, "temperature": 0, "stream": stream}
    with live(model) as server:
        response = server.http.post(TEXT, json=body)
        if stream:
            *parts, done, _ = response.text.split("\n\n")
            assert done == "data: [DONE]"
            assert json.loads(parts[-1].removeprefix("data: "))["error"]["code"] == "engine_error"
        else:
            assert response.status_code == 500
            assert response.json()["error"]["code"] == "engine_error"
        server.wait(lambda: server.metric("chipwise_running_requests") == 0)
        assert server.metric('chipwise_requests_total{outcome="error"}') == 1
        assert server.metric('chipwise_requests_total{outcome="cancelled"}') == 1
        assert server.http.post(TEXT, json={**body, "n": 1, "max_tokens": 2}).status_code == 200


def test_room_for_some_of_the_choices_is_room_for_none() -> None:
    model = null_model(2, 100_000, next_token=lambda history: ord("x"), clock=WallClock(), decode_s=0.002)
    with live(model, max_waiting=1) as server:
        endless = {"prompt": PROMPT, "max_tokens": 90_000, "stream": True}
        with server.http.stream("POST", TEXT, json={**endless, "n": 2}) as running:
            assert running.status_code == 200
            server.wait_for(running=2, waiting=0)
            with httpx.Client(base_url=server.url, verify=False, timeout=10) as other:
                refused = other.post(TEXT, json={**endless, "n": 2})
            assert refused.status_code == 429
            assert refused.json()["error"]["code"] == "queue_full"
            server.wait_for(running=2, waiting=0)


def test_eight_at_most_however_many_slots() -> None:
    with live(null_model(10, next_token=says("ok"))) as server:
        body = {"prompt": "x\n", "temperature": 0}
        assert len(server.http.post(TEXT, json={**body, "n": 8}).json()["choices"]) == 8
        refused = server.http.post(TEXT, json={**body, "n": 9})
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "n"
    assert "9 choices are asked for, at most 8 are made: a request takes no more" in refused.json()["error"]["message"]
