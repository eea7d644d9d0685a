"""Priorities and deadlines, as clients give them."""

from __future__ import annotations

import math
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from chipwise.engine.null import WallClock
from chipwise.serve.request.priority import Priority
from tests.serve.fakes import null_model, says
from tests.serve.http.test_lifecycle import Background, endless, slow
from tests.serve.live import Live, live


def seen(server: Live, body: dict, headers: dict[str, str] | None = None) -> tuple[Priority, float | None]:
    """What the scheduler is told of a request."""
    found = []
    submit = server.service.loop.submit

    def spy(request, outbox):
        found.append((request.priority, request.deadline_s and request.deadline_s - request.arrived_s))
        return submit(request, outbox)

    server.service.loop.submit = spy  # type: ignore[method-assign]
    try:
        response = server.http.post("/v1/completions", json={"prompt": "hello\n", **body}, headers=headers)
    finally:
        server.service.loop.submit = submit  # type: ignore[method-assign]
    assert response.status_code == 200, response.text
    return found[0]


def test_fields_go_before_headers_and_both_are_left_out_by_plain_clients() -> None:
    with live(null_model(next_token=says("ok"))) as server:
        assert seen(server, {}) == (Priority.NORMAL, None)
        assert seen(server, {"priority": None, "deadline_ms": None}) == (Priority.NORMAL, None)
        assert seen(server, {"priority": "background"}) == (Priority.BACKGROUND, None)
        assert seen(server, {"priority": 0}) == (Priority.EMERGENCY, None)
        assert seen(server, {}, {"X-Priority": "Interactive"}) == (Priority.INTERACTIVE, None)
        assert seen(server, {"priority": "normal"}, {"X-Priority": "3"}) == (Priority.NORMAL, None)
        assert seen(server, {"deadline_ms": 5000})[1] == pytest.approx(5.0)
        assert seen(server, {}, {"X-Deadline-Ms": "9000"})[1] == pytest.approx(9.0)


@pytest.mark.parametrize(
    ("body", "headers", "param"),
    [
        ({"priority": "king"}, {}, "priority"),
        ({"priority": 4}, {}, "priority"),
        ({"priority": True}, {}, "priority"),
        ({"priority": -1}, {}, "priority"),
        ({"deadline_ms": 0}, {}, "deadline_ms"),
        ({"deadline_ms": 1.5}, {}, "deadline_ms"),
        ({"deadline_ms": "5"}, {}, "deadline_ms"),
        ({}, {"X-Priority": "king"}, "X-Priority"),
        ({}, {"X-Priority": "7"}, "X-Priority"),
        ({}, {"X-Deadline-Ms": "soon"}, "X-Deadline-Ms"),
        ({}, {"X-Deadline-Ms": "-5"}, "X-Deadline-Ms"),
    ],
)
def test_other_values_are_refused_by_name(body: dict, headers: dict[str, str], param: str) -> None:
    with live(null_model()) as server:
        response = server.http.post("/v1/completions", json={"prompt": "x", **body}, headers=headers)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == param


def test_an_urgent_request_is_answered_while_background_fills_the_server() -> None:
    with live(slow(n_slots=2)) as server:
        background = [Background(server, endless(max_tokens=150, priority="background")) for _ in range(2)]
        server.wait_for(running=2, waiting=0)
        response = server.http.post("/v1/completions", json=endless(max_tokens=3, priority="emergency"))
        assert response.json()["choices"][0]["text"] == "xxx"
        assert server.metric("chipwise_evictions_total") == 1
        for one in background:
            answer = one.wait()
            assert isinstance(answer, httpx.Response)
            assert answer.json()["choices"][0]["text"] == "x" * 150


def test_a_deadline_that_passes_is_a_504_or_an_event_and_frees_the_slot() -> None:
    with live(slow(n_slots=1)) as server:
        whole = server.http.post("/v1/completions", json=endless(deadline_ms=60))
        assert whole.status_code == 504
        assert whole.json()["error"]["code"] == "deadline_exceeded"
        stream = server.http.post("/v1/completions", json=endless(deadline_ms=60, stream=True))
        assert "the deadline passed" in stream.text
        assert stream.text.endswith("data: [DONE]\n\n")
        assert server.metric('chipwise_requests_total{outcome="expired"}') == 2
        server.wait_for(running=0, waiting=0)


def test_the_servers_own_limit_on_time_holds_for_all() -> None:
    with live(slow(n_slots=1), request_timeout_s=0.06) as server:
        assert server.http.post("/v1/completions", json=endless()).status_code == 504
        assert server.http.post("/v1/completions", json=endless(deadline_ms=60_000)).status_code == 504


def test_a_body_that_does_not_come_is_given_up() -> None:
    def drip():
        yield b'{"prompt": '
        time.sleep(0.3)
        yield b'"x"}'

    with live(null_model(), body_timeout_s=0.05) as server:
        response = server.http.post("/v1/completions", content=drip())
        assert response.status_code == 408
        assert response.json()["error"]["code"] == "request_timeout"


def test_retry_after_grows_with_what_answers_take() -> None:
    model = null_model(1, 1000, next_token=lambda history: ord("x"), clock=WallClock(), decode_s=0.01)
    with live(model, max_waiting=0) as server:
        # An answer takes 1.3 s and more, so a place is free after 2 s; later where other programs hold the machine up.
        began_s = time.monotonic()
        server.http.post("/v1/completions", json=endless(max_tokens=130))
        took_s = time.monotonic() - began_s
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(server.http.post, "/v1/completions", json=endless(max_tokens=130))
            server.wait_for(running=1, waiting=0)
            refused = server.http.post("/v1/completions", json=endless())
            assert refused.status_code == 429
            assert 2 <= int(refused.headers["retry-after"]) <= math.ceil(took_s)
            assert running.result().status_code == 200
