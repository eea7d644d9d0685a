"""Requests that are no HTTP, on a bare socket: each gets OpenAI's error object, and the connection is closed."""

from __future__ import annotations

import json
import logging
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from email.message import Message
from email.parser import BytesParser

import h11
import pytest

from chipwise.engine.null import WallClock
from chipwise.serve.connection import http_protocol
from chipwise.serve.connection.crowd import Crowd
from tests.serve.fakes import null_model, says
from tests.serve.live import Live, live

CHAT = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"


@pytest.fixture(scope="module")
def server() -> Iterator[Live]:
    with live(null_model(next_token=says("ok"))) as running:
        yield running


def talk(server: Live, *parts: bytes) -> bytes:
    """All that the server says until it closes the connection."""
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=5) as link:
        for part in parts:
            link.sendall(part)
        return b"".join(iter(lambda: link.recv(1 << 16), b""))


def split(said: bytes) -> tuple[int, Message, bytes]:
    head, _, body = said.partition(b"\r\n\r\n")
    line, _, headers = head.partition(b"\r\n")
    return int(line.split()[1]), BytesParser().parsebytes(headers, headersonly=True), body


@pytest.mark.parametrize(
    ("request_bytes", "status", "message"),
    [
        (CHAT + b"Content-Length: -5\r\n\r\n", 400, "bad Content-Length"),
        (CHAT + b"Content-Length: five\r\n\r\n", 400, "bad Content-Length"),
        (CHAT + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n", 400, "Content-Length"),
        (CHAT + b"Transfer-Encoding: gzip\r\n\r\n", 501, "Transfer-Encoding"),
        (CHAT + b"Transfer-Encoding: chunked\r\n\r\nnot a size\r\n", 400, "chunk"),
        (CHAT + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 400, "both Content-Length"),
        (CHAT + b"X: " + b"x" * 20_000, 431, "larger than"),
        (b"GET /" + b"x" * 20_000, 431, "larger than"),
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400, "no valid HTTP"),
        (b"GET / HTTP/1.1\r\n\r\n", 400, "Host"),
    ],
    ids=lambda value: repr(value[-50:]) if isinstance(value, bytes) else str(value),
)
def test_refused(server: Live, request_bytes: bytes, status: int, message: str) -> None:
    found, headers, body = split(talk(server, request_bytes))
    error = json.loads(body)["error"]
    assert found == status
    assert message in error["message"]
    assert (error["type"], error["code"], error["param"]) == ("invalid_request_error", "invalid_http", None)
    assert headers["content-type"] == "application/json"
    assert headers["connection"] == "close"
    assert "transfer-encoding" not in headers
    assert int(headers["content-length"]) == len(body)


def test_a_chunk_that_is_none_after_the_request_was_begun(server: Live, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        said = talk(server, CHAT + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", b"zz\r\n")
    assert said.count(b"HTTP/1.1") == 1
    assert json.loads(split(said)[2])["error"]["code"] == "invalid_http"
    assert caplog.records == []


def test_a_chunk_that_is_none_after_the_answer(server: Live, caplog: pytest.LogCaptureFixture) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    with caplog.at_level(logging.ERROR), socket.create_connection((host, int(port)), timeout=5) as link:
        link.sendall(b"POST /nothing HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        said = link.recv(1 << 16)
        link.sendall(b"zz\r\n")
        said += b"".join(iter(lambda: link.recv(1 << 16), b""))
    assert said.count(b"HTTP/1.1") == 1
    assert split(said)[0] == 404
    assert caplog.records == []


def test_head_gets_no_body(server: Live) -> None:
    said = talk(server, b"HEAD /health HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", b"zz\r\n")
    assert said.endswith(b"\r\n\r\n")
    assert said.count(b"\r\n\r\n") == 1


def stream(version: str, connection: str) -> bytes:
    body = json.dumps({"prompt": "hi\n", "stream": True, "temperature": 0}).encode()
    head = f"POST /v1/completions HTTP/{version}\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + f"Connection: {connection}\r\n\r\n".encode() + body


def texts(events: bytes) -> str:
    """The text of a stream, which must be whole."""
    *chunks, done = [event.removeprefix("data: ") for event in events.decode().split("\n\n")[:-1]]
    assert done == "[DONE]"
    return "".join(choice["text"] for chunk in chunks for choice in json.loads(chunk)["choices"])


def test_streams_of_one_connection_come_in_chunks(server: Live) -> None:
    said = talk(server, stream("1.1", "keep-alive") + stream("1.1", "close"))
    client, bodies = h11.Connection(h11.CLIENT), []
    client.receive_data(said)
    client.receive_data(b"")
    for _ in range(2):
        client.send(h11.Request(method="POST", target="/", headers=[("host", "x")]))
        client.send(h11.EndOfMessage())
        body = b""
        while not isinstance(event := client.next_event(), h11.EndOfMessage):
            body += event.data if isinstance(event, h11.Data) else b""
        bodies.append(body)
        if client.their_state is h11.DONE:
            client.start_next_cycle()
    assert [texts(body) for body in bodies] == ["ok", "ok"]


def test_an_old_client_gets_a_stream_without_chunks(server: Live) -> None:
    status, headers, body = split(talk(server, stream("1.0", "close")))
    assert status == 200
    assert "transfer-encoding" not in headers
    assert texts(body) == "ok"


def test_a_good_request_before_a_bad_one_is_answered(server: Live) -> None:
    said = talk(server, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n", b"nonsense\r\n\r\n")
    assert re.findall(rb"HTTP/1\.1 (\d+)", said) == [b"200", b"400"]
    assert server.http.get("/health").status_code == 200


GET = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
LAST = GET.replace(b"Host", b"Connection: close\r\nHost")
POST = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 26\r\n\r\n" + b'{"prompt": "\\n", "seed":1}'


@pytest.mark.parametrize(
    "parts",
    [
        (b"\r\n" + LAST,),
        (b"\n" + LAST,),
        (b"\r\n\r\n\r\n" + LAST,),
        (b"\r\n", LAST),
        (b"\r", b"\n" + LAST),
        (b"\r\n", b"\r\n" + LAST[:9], LAST[9:]),
    ],
    ids=repr,
)
def test_empty_lines_before_a_request_are_passed_over(server: Live, parts: tuple[bytes, ...]) -> None:
    with link_to(server) as link:
        for part in parts:
            link.sendall(part)
            time.sleep(0.02)
        said = b"".join(iter(lambda: link.recv(1 << 16), b""))
    assert re.findall(rb"HTTP/1\.1 (\d+)", said) == [b"200"]


@pytest.mark.parametrize("behind", [b"\r\n", b"\r\n\r\n", b"\n"])
def test_empty_lines_behind_a_body_are_passed_over(server: Live, behind: bytes) -> None:
    """Old clients write one there, whether the next request comes at once, later, or never."""
    said = talk(server, POST + behind + POST + behind + LAST)
    assert re.findall(rb"HTTP/1\.1 (\d+)", said) == [b"200", b"200", b"200"]
    with link_to(server) as link:
        for request in (POST, POST):
            link.sendall(request + behind)
            said = b""
            while not said.endswith(b"}}}"):
                more = link.recv(1 << 16)
                assert more
                said += more
            assert said.startswith(b"HTTP/1.1 200")
        link.sendall(behind)
        link.settimeout(0.1)
        with pytest.raises(TimeoutError):
            link.recv(1)


def test_empty_lines_win_no_time() -> None:
    with live(null_model(next_token=says("ok"))) as server:
        server.server.config.timeout_keep_alive = 0.3
        with link_to(server) as link:
            closed = False
            for _ in range(100):
                try:
                    link.sendall(b"\r\n")
                except OSError:
                    closed = True
                    break
                time.sleep(0.02)
        assert closed


def test_a_head_that_is_too_long_behind_an_empty_line_is_refused_as_ever(server: Live) -> None:
    assert split(talk(server, b"\r\n" + CHAT + b"X: " + b"x" * 20_000))[0] == 431


def test_a_client_that_closes_its_side_gets_what_is_there_at_once_and_gives_up_an_answer(server: Live) -> None:
    """Whoever is gone looks the same, and must not keep a slot."""
    for request, status in ((GET, b"HTTP/1.1 200"), (b"nonsense\r\n\r\n", b"HTTP/1.1 400")):
        with link_to(server) as link:
            link.sendall(request)
            link.shutdown(socket.SHUT_WR)
            assert b"".join(iter(lambda: link.recv(1 << 16), b"")).startswith(status)
    with live(null_model(max_context=100_000, clock=WallClock(), decode_s=0.005)) as slow, link_to(slow) as link:
        body = b'{"prompt": "go", "max_tokens": 90000}'
        link.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        slow.wait_for(running=1, waiting=0)
        link.shutdown(socket.SHUT_WR)
        slow.wait_for(running=0, waiting=0)
        assert slow.metric('chipwise_requests_total{outcome="cancelled"}') == 1
        assert link.recv(1) == b""


def link_to(server: Live) -> socket.socket:
    host, port = server.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=5)


def test_a_request_that_never_comes_to_its_end_is_refused(server: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "_HEAD_S", 0.2)
    with link_to(server) as link:
        for byte in (b"G", b"E", b"T"):  # more bytes do not win more time
            link.sendall(byte)
            time.sleep(0.05)
        said = b"".join(iter(lambda: link.recv(1 << 16), b""))
    status, headers, body = split(said)
    assert (status, headers["connection"]) == (408, "close")
    assert json.loads(body)["error"]["code"] == "request_timeout"


def test_the_second_request_of_a_connection_has_no_more_time(server: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "_HEAD_S", 0.1)
    with link_to(server) as link:
        link.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        said = link.recv(1 << 16)
        link.sendall(b"GET /health HTT")
        said += b"".join(iter(lambda: link.recv(1 << 16), b""))
    assert re.findall(rb"HTTP/1\.1 (\d+)", said) == [b"200", b"408"]


def test_a_request_that_came_in_time_may_take_long(server: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "_HEAD_S", 0.1)
    with link_to(server) as link:
        link.sendall(CHAT)
        link.sendall(b"Content-Length: 2\r\n\r\n")
        time.sleep(0.3)
        link.sendall(b"{}")
        assert link.recv(1 << 16).startswith(b"HTTP/1.1 400")


def test_a_connection_without_a_request_is_closed() -> None:
    with live(null_model(next_token=says("ok"))) as server:
        server.server.config.timeout_keep_alive = 0.1
        with link_to(server) as link:
            assert link.recv(1) == b""


def test_silent_connections_keep_nobody_out() -> None:
    with live(null_model(next_token=says("ok")), crowd=Crowd(4)) as server:
        silent = [link_to(server) for _ in range(40)]
        try:
            assert server.http.get("/health").status_code == 200
            closed = [link for link in silent if is_closed(link)]
            assert 36 <= len(closed) <= 37
            assert silent[0] in closed
            assert silent[-1] not in closed
        finally:
            for link in silent:
                link.close()


def is_closed(link: socket.socket) -> bool:
    link.settimeout(0.2)
    try:
        return link.recv(1) == b""
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False


def test_what_is_no_http_is_not_in_the_log(server: Live, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever sends it is told; a line each would let anybody fill a disk."""
    with caplog.at_level(logging.INFO):
        for wrong in (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"):
            assert split(talk(server, wrong))[0] == 400
    assert caplog.records == []


BODY = b"x" * (24 << 20)
DECLARED = b"Content-Length: %d\r\n" % len(BODY)
IN_CHUNKS = b"Transfer-Encoding: chunked\r\n"


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (DECLARED + b"\r\n", 413),
        (IN_CHUNKS + b"\r\n%x\r\n" % len(BODY), 413),
        (IN_CHUNKS + DECLARED + b"\r\n%x\r\n" % len(BODY), 400),
        (b"X: ", 431),
    ],
    ids=["declared", "in chunks", "two lengths", "endless head"],
)
def test_who_sends_everything_before_reading_gets_the_answer(server: Live, head: bytes, status: int) -> None:
    # A reset would fail the sending, or take away the answer that is on its way.
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as link:
        link.sendall(CHAT + head + BODY)
        time.sleep(0.05)
        said, _, body = split(b"".join(iter(lambda: link.recv(1 << 16), b"")))
    assert said == status
    assert json.loads(body)["error"]["message"]


def test_who_never_stops_sending_is_left(server: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chipwise.serve.connection.lingering._MOST_S", 0.2)
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=5) as link:
        link.sendall(CHAT + b"Content-Length: 99999999\r\n\r\n")
        assert b" 413 " in link.recv(1 << 16)
        time.sleep(0.5)
        link.sendall(b"x")
        time.sleep(0.1)
        with pytest.raises(ConnectionError):
            link.sendall(b"x")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (CHAT + b"Content-Length: 99999999\r\n\r\n", b" 413 "),
        (CHAT + b"Transfer-Encoding: chunked\r\n\r\nno size\r\n", b" 400 "),
        (CHAT + b"X: " + b"x" * 20_000, b" 431 "),
    ],
    ids=["too large", "no chunk", "endless head"],
)
def test_an_end_does_not_wait_for_who_still_sends(sent: bytes, status: bytes) -> None:
    with live(null_model(next_token=says("ok"))) as server:
        host, port = server.url.removeprefix("http://").split(":")
        link = socket.create_connection((host, int(port)), timeout=5)
        link.sendall(sent)
        assert status in link.recv(1 << 16)
        server.server.drain()
        started_s = time.monotonic()
        server.thread.join(10)
        assert time.monotonic() - started_s < 3
        link.close()


@pytest.mark.parametrize(
    "sent", [b"BAD\r\n\r\n", CHAT + b"Content-Length: 99999999\r\n\r\n"], ids=["nonsense", "too large"]
)
def test_who_was_refused_and_stays_keeps_nobody_out(sent: bytes) -> None:
    """A connection that waits for its client to close counts as any other."""
    with live(null_model(next_token=says("ok")), crowd=Crowd(4)) as server:
        links = []
        try:
            for _ in range(40):
                links.append(link_to(server))
                links[-1].sendall(sent)
                assert b" 4" in links[-1].recv(1 << 16)
            assert server.http.get("/health").status_code == 200
            assert sum(map(is_closed_whole, links)) >= 36
        finally:
            for link in links:
                link.close()


def is_closed_whole(link: socket.socket) -> bool:
    """Whether a connection takes nothing more, either."""
    try:
        link.sendall(b"x")
        time.sleep(0.01)
        link.sendall(b"x")
    except ConnectionError:
        return True
    return False


def answer(link: socket.socket) -> bytes:
    """One whole answer."""
    said = link.recv(1 << 16)
    while not (parts := split(said))[1]["content-length"] or len(parts[2]) < int(parts[1]["content-length"]):
        more = link.recv(1 << 16)
        assert more, said
        said += more
    return said


def test_a_body_that_nobody_read_has_an_end_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "_HEAD_S", 0.2)
    with live(null_model(next_token=says("ok"))) as server, link_to(server) as link:
        link.sendall(b"POST /nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n")
        assert b" 404 " in answer(link)
        link.sendall(b"x")
        assert link.recv(1 << 16) == b"", "closed, without an answer to what was no request"


def test_a_body_that_comes_behind_its_answer_leaves_the_connection_as_good_as_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_protocol, "_HEAD_S", 0.1)
    with live(null_model(next_token=says("ok"))) as server, link_to(server) as link:
        for _ in range(2):
            link.sendall(b"POST /nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n")
            assert b" 404 " in answer(link)
            link.sendall(b"body")
            time.sleep(0.3)
        link.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert answer(link).startswith(b"HTTP/1.1 200")


def test_who_asks_and_reads_nothing_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chipwise.serve.connection.lingering._UNREAD_S", 0.1)
    with live(null_model(next_token=says("ok")), crowd=Crowd(4)) as server:
        host, port = server.url.removeprefix("http://").split(":")
        links = []
        try:
            for _ in range(4):
                link = socket.socket()
                link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                link.connect((host, int(port)))
                links.append(link)
                with suppress(ConnectionError, TimeoutError):
                    link.settimeout(1)
                    link.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 2000)
            wait_until(lambda: all(one.idle_since_s is not None for one in server.server.server_state.connections))
            assert server.http.get("/health").status_code == 200
        finally:
            for link in links:
                link.close()


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


def test_who_reads_slowly_gets_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chipwise.serve.connection.lingering._UNREAD_S", 0.2)
    asked = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
    with live(null_model(next_token=says("ok"))) as server:
        host, port = server.url.removeprefix("http://").split(":")
        with socket.socket() as link:
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            link.connect((host, int(port)))
            link.settimeout(5)
            link.sendall(asked * 20)
            said, waits = b"", 0
            while said.count(b"HTTP/1.1 200") < 20 or not said.endswith(b"\n"):
                said += link.recv(1 << 13)
                waits += 1
                time.sleep(0.005)
        assert waits * 0.005 > 0.2, "it was not slow"
