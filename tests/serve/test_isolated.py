"""A server whose engine crashes, hangs and does not start lives on, and its clients hardly notice."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest

from chipwise.engine.isolated import IsolatedEngine, Isolation
from chipwise.serve.models.served_model import ServedModel
from tests.engine.isolated.conftest import EAGER, workers
from tests.engine.isolated.fake_site.misbehaving import SEGFAULT, next_token
from tests.serve.fakes import alone, byte_tokenizer, text_of
from tests.serve.live import Live, live
from tests.serve.test_server import command, write_bundle

# Each starts processes of its own, which import the engine anew.
pytestmark = pytest.mark.slow


HANG_S = 2.0
TOKENS = 60


@contextmanager
def serving(**options) -> Iterator[Live]:
    engine = IsolatedEngine("misbehaving", Isolation(step_timeout_s=HANG_S, backoff=EAGER))
    session = engine.open({}, n_slots=4, max_context=256, options={"step_s": 0.002, **options})
    model = ServedModel("isolated", session, byte_tokenizer(), None, 0, process=session)
    try:
        with live(model) as server:
            yield server
    finally:
        session.close()
    assert workers() == []


@pytest.fixture
def server(site: Path) -> Iterator[Live]:
    with serving() as running:
        yield running


def stream(server: Live, prompt: list[int], begun: threading.Semaphore, **fields) -> tuple[str, dict | None]:
    """What a client reads, and the error that ends it."""
    body = {"prompt": prompt, "temperature": 0, "max_tokens": TOKENS, "stream": True, **fields}
    said, error = "", None
    with (
        httpx.Client(base_url=server.url, verify=False, timeout=60) as client,
        client.stream("POST", "/v1/completions", json=body) as response,
    ):
        for line in response.iter_lines():
            if not line.startswith("data: {"):
                continue
            event = json.loads(line.removeprefix("data: "))
            error = event.get("error", error)
            said += "".join(choice["text"] for choice in event.get("choices", ()))
            if len(said) == 5:
                begun.release()
    return said, error


def expected(prompt: list[int]) -> str:
    return text_of(alone(prompt, TOKENS, next_token=next_token))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["crash", "hang"])
def test_four_streams_read_one_text_each_whatever_happens_to_the_engine(server: Live, number: signal.Signals) -> None:
    prompts = [[i + 1, 10, 20] for i in range(4)]
    begun = threading.Semaphore(0)
    with ThreadPoolExecutor(5) as pool:
        answers = [pool.submit(stream, server, prompt, begun) for prompt in prompts]
        for _ in prompts:
            assert begun.acquire(timeout=30)
        (pid,) = workers()
        os.kill(pid, number)
        started_s = time.monotonic()
        late = server.http.post("/v1/completions", json={"prompt": [9], "deadline_ms": 300, "max_tokens": 100})
        late_s = time.monotonic() - started_s
        texts = [answer.result(60) for answer in answers]
    assert texts == [(expected(prompt), None) for prompt in prompts]
    assert server.metric("chipwise_engine_restarts_total") == 1
    assert server.metric("chipwise_engine_up") == 1
    assert server.http.get("/health").json() == {"status": "ok", "model": "isolated", "engine": "up"}
    # Its deadline passed while the engine hung or started, and it was told so then.
    assert late.status_code == 504
    assert late_s < HANG_S
    assert not psutil.pid_exists(pid)


def test_a_request_that_kills_the_engine_ends_alone(server: Live) -> None:
    begun = threading.Semaphore(0)
    with ThreadPoolExecutor(3) as pool:
        answers = [pool.submit(stream, server, [i + 1, 30], begun) for i in range(2)]
        for _ in answers:
            assert begun.acquire(timeout=30)
        poison = server.http.post("/v1/completions", json={"prompt": [1, SEGFAULT]}, timeout=60)
        texts = [answer.result(60) for answer in answers]
    assert poison.status_code == 500
    message = poison.json()["error"]["message"]
    assert "given up after the engine was lost in 3 of its steps" in message
    assert "a segmentation fault (SIGSEGV)" in message
    assert texts == [(expected([i + 1, 30]), None) for i in range(2)]
    assert server.metric("chipwise_engine_restarts_total") >= 2


def test_one_that_does_not_start_again_is_said_to_be_down_until_it_does(site: Path, tmp_path: Path) -> None:
    broken, begun = tmp_path / "broken", threading.Semaphore(0)
    with serving(broken=str(broken)) as server, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(stream, server, [1], begun, max_tokens=200)
        assert begun.acquire(timeout=30)
        broken.touch()
        os.kill(workers()[0], signal.SIGKILL)
        _, error = answer.result(60)
        assert error is not None
        assert error["code"] == "unavailable"
        assert "the engine is down (the engine cannot be started again: the device does not answer)" in error["message"]
        health = server.http.get("/health")
        assert (health.status_code, health.json()["status"], health.json()["engine"]) == (503, "unhealthy", "down")
        assert server.metric("chipwise_engine_up") == 0
        refused = server.http.post("/v1/completions", json={"prompt": [1]})
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
        broken.unlink()
        server.wait(lambda: server.http.get("/health").status_code == 200, 60)
        assert stream(server, [2], begun) == (expected([2]), None)


def test_command_isolates_when_asked_and_leaves_nothing_behind(tmp_path: Path) -> None:
    bundle, asked = write_bundle(tmp_path / "bundle"), {"prompt": [1, 2, 3], "temperature": 0, "max_tokens": 20}
    with command(bundle, "--isolate", "--engine-timeout", "60") as running:
        server = psutil.Process(running.process.pid)
        texts = []
        for _ in range(2):
            (pid,) = workers(server.pid)
            worker = psutil.Process(pid)
            answer = httpx.post(f"{running.url}/v1/completions", json=asked, timeout=60).json()
            texts.append(answer["choices"][0]["text"])
            worker.kill()
            # The next one is there before anybody asks.
            end = time.monotonic() + 60
            while workers(server.pid) in ([], [pid]):
                assert time.monotonic() < end
                time.sleep(0.02)
        assert texts == [text_of(alone([1, 2, 3], 20))] * 2
        (pid,) = workers(server.pid)
        running.process.send_signal(signal.SIGTERM)
        code, out, err = running.end()
    assert (code, out) == (0, "stopped\n")
    assert "Traceback" not in err
    assert not psutil.pid_exists(pid)
