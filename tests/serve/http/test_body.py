"""Bodies that are slow or many, on bare sockets."""

from __future__ import annotations

import json
import queue
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest

from chipwise.engine.graph_session import TensorSpec
from chipwise.serve.api import chat as chat_module
from chipwise.serve.http import body as body_module
from tests.serve.fakes import null_encoder, null_graph, null_model, says
from tests.serve.live import Live, live

LARGE = 400_000
CHAT = "/v1/chat/completions"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Live]:
    monkeypatch.setattr(body_module.BodyRoom.__init__, "__defaults__", (1_000_000,))
    with live(null_model(next_token=says("ok"))) as running:
        yield running


def begin(server: Live) -> socket.socket:
    """Send a large body but for its last byte."""
    host, port = server.url.removeprefix("http://").split(":")
    link = socket.create_connection((host, int(port)), timeout=5)
    head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {LARGE}\r\n\r\n"
    link.sendall(head.encode() + b" " * (LARGE - 1))
    return link


def held_bytes(server: Live) -> int:
    return server.server.config.app.state.body_room.held_bytes


def test_large_bodies_together_hold_no_more_than_they_may(server: Live) -> None:
    links = [begin(server) for _ in range(2)]
    server.wait(lambda: held_bytes(server) > 600_000)
    refused = begin(server)
    said = refused.recv(1 << 16)
    while b"}}" not in said:
        said += refused.recv(1 << 16)
    assert said.startswith(b"HTTP/1.1 429")
    assert b'"bodies_full"' in said
    assert server.metric('chipwise_requests_total{outcome="rejected"}') == 1
    assert server.metric('chipwise_rejections_total{reason="bodies"}') == 1
    assert server.metric('chipwise_rejections_total{reason="queue"}') == 0
    # Small ones are answered all the same.
    assert server.http.post("/v1/completions", json={"prompt": "a", "max_tokens": 1}).status_code == 200
    for link in links:
        link.sendall(b"x")
        assert link.recv(1 << 16).startswith(b"HTTP/1.1 400")
    server.wait(lambda: held_bytes(server) == 0)
    for link in (refused, *links):
        link.close()


def test_who_leaves_while_sending_gives_the_memory_back(server: Live) -> None:
    link = begin(server)
    server.wait(lambda: held_bytes(server) > 300_000)
    link.close()
    server.wait(lambda: held_bytes(server) == 0)


def test_the_refusal_says_when_to_come_back(server: Live) -> None:
    links = [begin(server) for _ in range(2)]
    server.wait(lambda: held_bytes(server) > 600_000)
    response = server.http.post("/v1/completions", content=json.dumps({"prompt": "x" * LARGE}))
    assert (response.status_code, response.headers["retry-after"]) == (429, "30")
    assert "large requests" in response.json()["error"]["message"]
    for link in links:
        link.close()


def test_models_that_answer_in_one_run_count_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_module.BodyRoom.__init__, "__defaults__", (100_000,))
    graph = null_graph(TensorSpec("x", (None,), np.dtype(np.float32)))
    with live(null_model(next_token=says("ok")), encoder=null_encoder(), graph=graph) as server:
        for number, kind in enumerate(("embeddings", "infer"), start=1):
            assert server.http.post(f"/v1/{kind}", content=b" " * LARGE).status_code == 429
            assert server.metric(f'chipwise_jobs_total{{kind="{kind}",outcome="rejected"}}') == 1
            assert server.metric('chipwise_rejections_total{reason="bodies"}') == number
        # They are no requests to the language model.
        assert server.metric('chipwise_requests_total{outcome="rejected"}') == 0


def chat_of(n_bytes: int) -> bytes:
    return json.dumps({"messages": [{"role": "user", "content": "x" * n_bytes}], "max_tokens": 1}).encode()


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[queue.SimpleQueue[int], threading.Event]]:
    """The lengths of large bodies as they begin to be read, and what lets that go on."""
    entered: queue.SimpleQueue[int] = queue.SimpleQueue()
    opened, read = threading.Event(), chat_module._read

    def slow(body: bytes) -> chat_module.ChatFields:
        if len(body) > LARGE:
            entered.put(len(body))
            assert opened.wait(20)
        return read(body)

    monkeypatch.setattr(chat_module, "_read", slow)
    yield entered, opened
    opened.set()


def test_while_a_large_body_is_read_others_are_answered_and_the_next_large_one_waits(
    server: Live, readings: tuple[queue.SimpleQueue[int], threading.Event]
) -> None:
    entered, opened = readings
    with ThreadPoolExecutor(2) as pool:
        large = [pool.submit(httpx.post, f"{server.url}{CHAT}", content=chat_of(LARGE + 5)) for _ in range(2)]
        assert entered.get(timeout=20) > LARGE
        server.wait(lambda: held_bytes(server) > 600_000)
        assert server.http.get("/health").status_code == 200
        assert server.http.post(CHAT, content=chat_of(5)).status_code == 200
        assert entered.empty()
        opened.set()
        for answer in large:
            assert answer.result().json()["error"]["code"] == "context_length_exceeded"
    assert entered.get(timeout=20) > LARGE
    assert held_bytes(server) == 0


def test_a_large_body_whose_client_left_while_it_waited_is_not_read(
    server: Live, readings: tuple[queue.SimpleQueue[int], threading.Event]
) -> None:
    entered, opened = readings
    host, port = server.url.removeprefix("http://").split(":")
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(httpx.post, f"{server.url}{CHAT}", content=chat_of(LARGE + 5))
        assert entered.get(timeout=20) > LARGE
        body = chat_of(LARGE + 5)
        with socket.create_connection((host, int(port)), timeout=5) as link:
            link.sendall(f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
            server.wait(lambda: held_bytes(server) > 600_000)
        assert server.http.get("/health").status_code == 200
        opened.set()
        assert first.result().status_code == 400
    server.wait(lambda: held_bytes(server) == 0)
    assert entered.empty()
