from __future__ import annotations

import base64
import json
import queue
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import openai
import pytest

from tests.serve.fakes import NullEncoder, null_encoder, null_model, says
from tests.serve.live import Live, live

PATH = "/v1/embeddings"
TIMEOUT_S = 20.0


@pytest.fixture(scope="module")
def server() -> Iterator[Live]:
    """A language model and an encoder."""
    with live(null_model(next_token=says("ok")), encoder=null_encoder()) as running:
        yield running


def session_of(server: Live) -> NullEncoder:
    session = server.site.embeddings.current.model.session
    assert isinstance(session, NullEncoder)
    return session


def client(server: Live) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)


def ask(server: Live, text: Any, **fields: Any) -> httpx.Response:
    return server.http.post(PATH, json={"input": text, **fields})


@pytest.mark.parametrize("form", ["float", "base64", None])
def test_openai_client_gets_the_vectors_of_its_texts_in_order(server: Live, form: str | None) -> None:
    """The client asks for base64 by itself when no form is named."""
    texts = ["a much longer text than the others", "b", "世界", "b"]
    with client(server) as c:
        fields = {} if form is None else {"encoding_format": form}
        answer = c.embeddings.create(model="null-encoder", input=texts, **fields)
    vectors = [one.embedding for one in answer.data]
    if form == "base64":
        vectors = [np.frombuffer(base64.b64decode(vector), "<f4") for vector in vectors]
    for text, vector in zip(texts, vectors, strict=True):
        assert np.allclose(vector, session_of(server).vector(text), atol=1e-6)
    assert [one.index for one in answer.data] == [0, 1, 2, 3]
    assert answer.model == "null-encoder"
    tokens = sum(len(text.encode()) for text in texts)
    assert (answer.usage.prompt_tokens, answer.usage.total_tokens) == (tokens, tokens)


def test_a_text_and_token_ids_and_lists_of_these_are_the_same(server: Live) -> None:
    ids = list(b"hello")
    answers = [ask(server, text).json()["data"] for text in ("hello", ["hello"], ids, [ids])]
    assert all(answer == answers[0] for answer in answers)
    assert len(answers[0]) == 1
    assert ask(server, "hello", dimensions=6, user="me").json()["data"] == answers[0]


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({}, "input", "field required"),
    ({"input": ""}, "input", "text 0 is empty"),
    ({"input": ["a", ""]}, "input", "text 1 is empty"),
    ({"input": [[1], []]}, "input", "text 1 is empty"),
    ({"input": []}, "input", "should be a string"),
    ({"input": 5}, "input", "should be a string"),
    ({"input": [True]}, "input", "should be a string"),
    ({"input": ["a", [1]]}, "input", "should be a string"),
    ({"input": [[1.5]]}, "input", "should be a string"),
    ({"input": ["a"] * 2049}, "input", "holds 2049 texts, at most 2048"),
    ({"input": [1, 258]}, "input", "input[0]: the token id 258 is none of the model's, which go from 0 to 257"),
    (
        {"input": ["a", "x" * 65]},
        "input",
        "input[1]: the text has 65 tokens, the model 'null-encoder' takes 64 at most",
    ),
    (
        {"input": ["a", "x" * 999]},
        "input",
        "input[1]: the text of 999 characters has more than 128 tokens, the model 'null-encoder' takes 64 at most",
    ),
    ({"input": "a", "encoding_format": "hex"}, "encoding_format", "'float' or 'base64'"),
    ({"input": "a", "dimensions": 3}, "dimensions", "have 6 dimensions"),
    ({"input": "a", "dimensions": 0}, "dimensions", "greater than"),
    ({"input": "a", "deadline_ms": 0}, "deadline_ms", "greater than"),
]


@pytest.mark.parametrize(("body", "param", "words"), REFUSED)
def test_refused_with_the_field_and_the_reason(server: Live, body: dict[str, Any], param: str, words: str) -> None:
    runs = len(session_of(server).runs)
    response = server.http.post(PATH, json=body)
    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (400, param)
    assert words in error["message"]
    assert len(session_of(server).runs) == runs


def test_a_model_is_asked_for_by_its_name(server: Live) -> None:
    with client(server) as c:
        assert [model.id for model in c.models.list().data] == ["null-bytes", "null-encoder"]
        assert c.models.retrieve("null-encoder").created == 1_700_000_001
        with pytest.raises(openai.NotFoundError, match="'null-bytes' gives no embeddings here; ask for 'null-encoder'"):
            c.embeddings.create(model="null-bytes", input="a")
        with pytest.raises(openai.NotFoundError, match="'null-encoder' does not exist here; ask for 'null-bytes'"):
            c.completions.create(model="null-encoder", prompt="a")


def test_a_server_without_an_encoder_says_so() -> None:
    with live(null_model(next_token=says("ok"))) as server:
        response = ask(server, "a")
    assert response.status_code == 404
    assert response.json()["error"]["message"] == (
        "this server gives no embeddings; start it with --embeddings BUNDLE, the bundle of an encoder"
    )


def test_an_encoder_alone_is_served_and_says_that_it_does_not_chat() -> None:
    with live(None, encoder=null_encoder()) as server:
        assert ask(server, "a").status_code == 200
        refused = server.http.post("/v1/chat/completions", json={"messages": [{"role": "user", "content": "x"}]})
        assert refused.status_code == 404
        assert "this server has no language model" in refused.json()["error"]["message"]
        assert server.http.get("/health").json() == {"status": "ok", "model": "null-encoder"}
        assert 'chipwise_jobs_total{kind="embeddings",outcome="done"} 1.0' in server.http.get("/metrics").text


class Gate:
    """Holds the first run back until it is opened, and tells that it has begun."""

    def __init__(self) -> None:
        self.entered: queue.SimpleQueue[int] = queue.SimpleQueue()
        self.opened = threading.Event()

    def __call__(self, ids: np.ndarray) -> None:
        self.entered.put(len(ids))
        assert self.opened.wait(TIMEOUT_S)


def test_requests_that_wait_are_run_together() -> None:
    gate = Gate()
    with live(None, encoder=null_encoder(gate=gate)) as server, ThreadPoolExecutor(6) as pool:
        first = pool.submit(ask, server, "first")
        assert gate.entered.get(timeout=TIMEOUT_S) == 1
        others = [pool.submit(ask, server, [f"text {i}", "x" * i]) for i in range(1, 5)]
        server.wait(lambda: server.site.embeddings.current.pipeline.n_live == 5)
        gate.opened.set()
        assert first.result().status_code == 200
        for i, other in enumerate(others, start=1):
            data = other.result().json()["data"]
            for entry, text in zip(data, (f"text {i}", "x" * i), strict=True):
                assert np.allclose(entry["embedding"], session_of(server).vector(text), atol=1e-6)
        # Two runs: one text, then the eight of the four requests side by side.
        assert [rows for rows, _ in session_of(server).runs] == [1, 8]


def test_a_client_that_leaves_gives_its_place_up() -> None:
    gate = Gate()
    with live(None, encoder=null_encoder(gate=gate), max_waiting=1) as server, ThreadPoolExecutor(2) as pool:
        first = pool.submit(ask, server, "first")
        gate.entered.get(timeout=TIMEOUT_S)
        with httpx.Client(base_url=server.url, verify=False, timeout=0.2) as other, pytest.raises(httpx.ReadTimeout):
            other.post(PATH, json={"input": "second"})
        pipeline = server.site.embeddings.current.pipeline
        server.wait(lambda: pipeline.n_live == 1)
        third = pool.submit(ask, server, "third")
        server.wait(lambda: pipeline.n_live == 2)
        refused = ask(server, "fourth")
        assert refused.status_code == 429
        assert refused.headers["retry-after"] == "1"
        gate.opened.set()
        assert (first.result().status_code, third.result().status_code) == (200, 200)
        assert server.metric('chipwise_jobs_total{kind="embeddings",outcome="cancelled"}') == 1
        assert server.metric('chipwise_jobs_total{kind="embeddings",outcome="rejected"}') == 1


def test_a_deadline_that_passes_ends_the_request() -> None:
    gate = Gate()
    with live(None, encoder=null_encoder(gate=gate)) as server:
        response = ask(server, "a", deadline_ms=30)
        assert response.status_code == 504
        assert response.json()["error"]["code"] == "deadline_exceeded"
        gate.opened.set()
        assert ask(server, "a").status_code == 200


def test_a_failing_run_is_a_500_and_the_next_one_works() -> None:
    with live(None, encoder=null_encoder(fail_runs=[0])) as server:
        assert ask(server, "a").status_code == 500
        assert ask(server, "a").status_code == 200


def test_vectors_that_are_no_numbers_fail_their_own_request_only() -> None:
    encoder = null_encoder()
    encoder.session.table[ord("!")] = np.nan
    with live(None, encoder=encoder) as server:
        response = ask(server, ["fine", "bad!"])
        assert response.status_code == 500
        assert "no numbers" in response.json()["error"]["message"]
        assert ask(server, "fine").status_code == 200


def test_draining_answers_what_runs_and_refuses_the_next() -> None:
    gate = Gate()
    with live(None, encoder=null_encoder(gate=gate)) as server, ThreadPoolExecutor(1) as pool:
        running = pool.submit(ask, server, "a")
        gate.entered.get(timeout=TIMEOUT_S)
        with httpx.Client(base_url=server.url, verify=False, timeout=TIMEOUT_S) as other:
            assert other.get("/health").json()["status"] == "ok"
            server.server.drain()
            server.wait(lambda: other.get("/health").json()["status"] == "draining")
            assert other.post(PATH, json={"input": "b"}).status_code == 503
        gate.opened.set()
        assert running.result().status_code == 200
        server.thread.join(TIMEOUT_S)
        assert not server.thread.is_alive()


def test_a_deadline_counts_from_the_arrival_not_from_the_end_of_the_body(server: Live) -> None:
    body = json.dumps({"input": "a", "deadline_ms": 200}).encode()
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=5) as link:
        head = f"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        link.sendall(head.encode() + body[:-1])
        time.sleep(0.4)
        link.sendall(body[-1:])
        assert link.recv(1 << 16).startswith(b"HTTP/1.1 504")


def test_an_encoder_whose_process_is_down_refuses_at_once_and_health_names_it() -> None:
    encoder = null_encoder()
    encoder.session.state, encoder.session.restarts, encoder.session.trouble = "down", 2, "killed"
    with live(null_model(next_token=says("ok")), encoder=encoder) as server:
        refused = ask(server, "a")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
        assert "the engine is down (killed)" in refused.json()["error"]["message"]
        health = server.http.get("/health")
        expected = {"status": "unhealthy", "model": "null-bytes", "embeddings_engine": "down"}
        assert (health.status_code, health.json()) == (503, expected)
        encoder.session.state = "up"
        assert ask(server, "a").status_code == 200
        assert server.http.get("/health").status_code == 200
