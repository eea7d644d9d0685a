"""What happens around answers: many at once, clients that go away, a full queue, faults, the end of the server."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import socket
import threading

import httpx
import openai
import pytest

from chipwise.engine.null import WallClock
from tests.serve.fakes import alone, null_model, says, text_of
from tests.serve.live import Live, live


def slow(n_slots: int = 2, decode_s: float = 0.005, **options):
    """A model that talks without end, a token every few milliseconds."""
    return null_model(
        n_slots, 100_000, next_token=lambda history: ord("x"), clock=WallClock(), decode_s=decode_s, **options
    )


def endless(**fields) -> dict:
    return {"prompt": "go\n", "temperature": 0, "max_tokens": 90_000, **fields}


class Background:
    """A request in a thread of its own; ``result`` is its response or the exception it ended with."""

    def __init__(self, server: Live, body: dict, timeout_s: float = 10.0) -> None:
        self.result: httpx.Response | Exception | None = None
        self._thread = threading.Thread(target=self._run, args=(server, body, timeout_s))
        self._thread.start()

    def _run(self, server: Live, body: dict, timeout_s: float) -> None:
        try:
            with httpx.Client(base_url=server.url, verify=False, timeout=timeout_s) as client:
                self.result = client.post("/v1/completions", json=body)
        except httpx.HTTPError as e:
            self.result = e

    def wait(self) -> httpx.Response | Exception | None:
        self._thread.join(20)
        assert not self._thread.is_alive()
        return self.result


async def _ask(client: openai.AsyncOpenAI, prompt: list[int], max_tokens: int, leave_after: int | None) -> str | None:
    stream = await client.completions.create(
        model="null-bytes", prompt=prompt, max_tokens=max_tokens, temperature=0, stream=True
    )
    pieces = []
    async for chunk in stream:
        pieces.append(chunk.choices[0].text)
        if leave_after is not None and len(pieces) > leave_after:
            await stream.close()
            return None
    return "".join(pieces)


def test_many_at_once_get_what_they_get_alone() -> None:
    chance = random.Random(8)
    asked = [
        ([chance.randrange(256) for _ in range(chance.randrange(1, 60))], chance.randrange(1, 80)) for _ in range(40)
    ]
    leaves = [chance.randrange(8) if chance.random() < 0.3 else None for _ in asked]

    async def ask_all(url: str) -> list[str | None]:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
            return await asyncio.gather(
                *(_ask(client, prompt, n, leave) for (prompt, n), leave in zip(asked, leaves, strict=True))
            )

    with live(null_model(3, max_step_tokens=32, clock=WallClock(), decode_s=0.0002), chunk_tokens=8) as server:
        texts = asyncio.run(ask_all(server.url))
        server.wait(lambda: server.metric("chipwise_running_requests") == 0)
        assert server.metric("chipwise_queue_depth_requests") == 0
        assert server.session.moves > 0
    stayed = 0
    for (prompt, n), text in zip(asked, texts, strict=True):
        if text is not None:
            stayed += 1
            assert text == text_of(alone(prompt, n))
    assert 20 <= stayed < 40


def test_client_that_leaves_a_stream_frees_its_slot() -> None:
    with live(slow(n_slots=1)) as server:
        with server.http.stream("POST", "/v1/completions", json=endless(stream=True)) as response:
            lines = response.iter_lines()
            for _ in range(5):
                next(lines)
        server.wait(lambda: server.metric("chipwise_running_requests") == 0)
        assert server.metric('chipwise_requests_total{outcome="cancelled"}') == 1
        after = server.session.steps
        assert server.http.post("/v1/completions", json=endless(max_tokens=2)).json()["choices"][0]["text"] == "xx"
        assert server.session.steps == after + 2


def test_client_that_leaves_a_whole_answer_frees_its_slot() -> None:
    with live(slow(n_slots=1)) as server:
        assert isinstance(Background(server, endless(), timeout_s=0.2).wait(), httpx.ReadTimeout)
        server.wait(lambda: server.metric("chipwise_running_requests") == 0)
        assert server.metric('chipwise_requests_total{outcome="cancelled"}') == 1


def test_queued_client_that_leaves_does_not_touch_the_running_one() -> None:
    with live(slow(n_slots=1)) as server:
        running = Background(server, endless(max_tokens=100))
        server.wait(lambda: server.metric("chipwise_running_requests") == 1)
        queued = Background(server, endless(), timeout_s=0.1)
        assert isinstance(queued.wait(), httpx.ReadTimeout)
        server.wait(lambda: server.metric("chipwise_queue_depth_requests") == 0)
        response = running.wait()
        assert isinstance(response, httpx.Response)
        assert response.json()["choices"][0]["text"] == "x" * 100


def test_full_queue_is_told_at_once() -> None:
    with live(slow(n_slots=1), max_waiting=1) as server:
        waiting = [Background(server, endless(max_tokens=60)) for _ in range(2)]
        server.wait_for(running=1, waiting=1)
        refused = server.http.post("/v1/completions", json=endless())
        assert refused.status_code == 429
        assert refused.headers["retry-after"] == "1"
        assert refused.json()["error"]["code"] == "queue_full"
        for request in waiting:
            response = request.wait()
            assert isinstance(response, httpx.Response)
            assert response.status_code == 200
        assert server.metric('chipwise_requests_total{outcome="rejected"}') == 1
        assert server.metric('chipwise_rejections_total{reason="queue"}') == 1


def test_engine_fault_before_the_first_token_is_a_500() -> None:
    with live(null_model(fail_steps=frozenset({0}))) as server:
        response = server.http.post("/v1/completions", json=endless(max_tokens=5, stream=True))
        assert response.status_code == 500
        error = response.json()["error"]
        assert (error["type"], error["code"], error["message"]) == (
            "server_error",
            "engine_error",
            "step 0 fails as told",
        )
        assert server.http.post("/v1/completions", json=endless(max_tokens=5)).status_code == 200


def test_engine_fault_in_a_stream_is_an_event() -> None:
    with live(null_model(fail_steps=frozenset({2, 5}), next_token=says("hello"))) as server:
        response = server.http.post("/v1/completions", json=endless(max_tokens=5, stream=True))
        parts = response.text.strip().split("\n\n")
        assert json.loads(parts[-2].removeprefix("data: "))["error"]["message"] == "step 2 fails as told"
        assert parts[-1] == "data: [DONE]"
        with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
            stream = client.completions.create(model="null-bytes", prompt="go\n", temperature=0, stream=True)
            with pytest.raises(openai.APIError, match="step 5 fails as told"):
                list(stream)


def test_engine_fault_in_a_whole_answer_is_a_500() -> None:
    with live(null_model(fail_steps=frozenset({2}))) as server:
        assert server.http.post("/v1/completions", json=endless(max_tokens=5)).status_code == 500


def test_engine_that_keeps_failing_shows_in_health() -> None:
    with live(null_model(fail_steps=frozenset({0, 1, 2}))) as server:
        states = []
        for _ in range(4):
            states.append(server.http.get("/health").status_code)
            server.http.post("/v1/completions", json=endless(max_tokens=1))
        states.append(server.http.get("/health").status_code)
        assert states == [200, 200, 200, 503, 200]


def test_draining_finishes_what_runs_and_takes_nothing_new() -> None:
    with live(slow(n_slots=1)) as server:
        running, queued = (Background(server, endless(max_tokens=80)) for _ in range(2))
        server.wait_for(running=1, waiting=1)
        server.server.drain()
        server.wait(lambda: server.service.loop.draining)
        refused = server.http.post("/v1/completions", json=endless())
        assert refused.status_code == 503
        assert refused.headers["retry-after"] == "5"
        assert refused.json()["error"]["code"] == "unavailable"
        health = server.http.get("/health")
        assert (health.status_code, health.json()["status"]) == (503, "draining")
        for request in (running, queued):
            response = request.wait()
            assert isinstance(response, httpx.Response)
            assert response.json()["choices"][0]["text"] == "x" * 80
        server.thread.join(5)
        assert not server.thread.is_alive()


def test_idle_server_drains_at_once() -> None:
    with live(slow()) as server:
        server.server.drain()
        server.server.drain()
        server.thread.join(5)
        assert not server.thread.is_alive()


def test_grace_time_ends_what_still_runs() -> None:
    with live(slow(n_slots=1), grace_s=0.2) as server:
        running, queued = Background(server, endless(stream=True)), Background(server, endless())
        server.wait_for(running=1, waiting=1)
        server.server.drain()
        stream, whole = running.wait(), queued.wait()
        assert isinstance(stream, httpx.Response)
        assert isinstance(whole, httpx.Response)
        # Either may have come first.
        texts = sorted([stream.text, whole.text], key=len)
        assert all("the server shut down before the answer was complete" in text for text in texts)
        server.thread.join(5)
        assert not server.thread.is_alive()


def test_who_still_sends_when_the_server_ends_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("chipwise.serve.connection.http_server._READ_S", 0.2)
    with live(slow()) as server, socket.create_connection(server.http.base_url.netloc.decode().split(":")) as client:
        client.settimeout(10)
        client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n{")
        server.wait(lambda: len(server.server.server_state.tasks) == 1)
        server.server.drain()
        answer = b"".join(iter(lambda: client.recv(1 << 16), b""))
        server.thread.join(5)
        assert not server.thread.is_alive()
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b"the server shut down before the request was complete" in answer
    assert not any(record.exc_info for record in caplog.records)


def test_bug_in_the_loop_is_an_error_for_all_and_ends_the_server(caplog: pytest.LogCaptureFixture) -> None:
    with live(slow(n_slots=1)) as server:

        def broken(*_: object) -> None:
            raise ZeroDivisionError("a bug")

        running, queued = Background(server, endless()), Background(server, endless())
        server.wait_for(running=1, waiting=1)
        server.session.step = broken  # type: ignore[method-assign]
        for request in (running, queued):
            response = request.wait()
            assert isinstance(response, httpx.Response)
            assert response.status_code == 500
            assert "the serving loop broke (ZeroDivisionError: a bug)" in response.json()["error"]["message"]
        server.thread.join(5)
        assert not server.thread.is_alive()
    assert "the serving loop broke" in caplog.text


def test_an_idle_server_ends_as_soon_as_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chipwise.serve.connection.http_server._DATE_S", 60.0)
    with live(null_model()) as server:
        server.server.leave()
        server.thread.join(10)
        assert not server.thread.is_alive()


def test_the_date_of_responses_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    days = itertools.count(1)
    monkeypatch.setattr("chipwise.serve.connection.http_server._DATE_S", 0.01)
    monkeypatch.setattr("uvicorn.server.formatdate", lambda *_, **__: f"day {next(days)}")
    with live(null_model()) as server:
        first = server.http.get("/health").headers["date"]
        server.wait(lambda: server.http.get("/health").headers["date"] != first)
