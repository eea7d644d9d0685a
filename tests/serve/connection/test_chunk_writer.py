from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import h11
import pytest
from uvicorn.protocols.http.flow_control import FlowControl

from chipwise.serve.connection.chunk_writer import ChunkWriter

START = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]}


class Line:
    """A connection whose writes are kept, with uvicorn's own flow control; what is passed on is kept too."""

    def __init__(self, version: str = "1.1", method: str = "POST") -> None:
        self.written: list[bytes] = []
        self.passed: list[dict[str, Any]] = []
        transport = SimpleNamespace(write=self.written.append)
        self.flow = FlowControl(transport)
        self.cycle = SimpleNamespace(disconnected=False)
        protocol = SimpleNamespace(cycle=self.cycle, flow=self.flow, transport=transport)
        self.send = ChunkWriter(protocol, {"http_version": version, "method": method}, self._pass)

    async def _pass(self, message: dict[str, Any]) -> None:
        self.passed.append(message)


def part(body: bytes, *, more: bool = True) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": more}


def run(line: Line, *messages: dict[str, Any]) -> None:
    async def send() -> None:
        for message in messages:
            await line.send(message)

    asyncio.run(send())


def waits_for_reader(line: Line, *, gone: bool = False) -> bool:
    """Sends a part to a reader that reads on, or goes, only later; says whether the part waited until then."""

    async def send() -> bool:
        await line.send(START)
        line.flow.pause_writing()
        waiting = asyncio.create_task(line.send(part(b"a")))
        await asyncio.sleep(0.01)
        waited = not waiting.done() and not line.written
        # As uvicorn does when a connection is lost.
        line.cycle.disconnected = gone
        line.flow.resume_writing()
        await waiting
        return waited

    return asyncio.run(send())


def test_chunks_are_what_h11_would_write() -> None:
    bodies = [b"data: 1\n\n", b"x" * 5000, "世界".encode()]
    line = Line()
    run(line, START, *map(part, bodies), part(b"end", more=False))
    other = h11.Connection(h11.SERVER)
    other.receive_data(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
    assert isinstance(other.next_event(), h11.Request)
    other.send(h11.Response(status_code=200, headers=START["headers"]))
    assert line.written == [other.send(h11.Data(data=body)) for body in bodies]
    assert line.passed == [START, part(b"end", more=False)]


def test_an_empty_part_is_not_the_end() -> None:
    line = Line()
    run(line, START, part(b""), part(b"a"))
    assert line.written == [b"1\r\na\r\n"]


@pytest.mark.parametrize(
    ("line", "start"),
    [
        (Line("1.0"), START),
        (Line(method="HEAD"), START),
        (Line(), {**START, "headers": [(b"content-length", b"2")]}),
        (Line(), {**START, "headers": [(b"Transfer-Encoding", b"chunked")]}),
        (Line(), {**START, "status": 204}),
    ],
    ids=["http 1.0", "head", "length", "framed", "no body"],
)
def test_other_responses_are_passed_on(line: Line, start: dict[str, Any]) -> None:
    run(line, start, part(b"a"), part(b"b", more=False))
    assert line.written == []
    assert line.passed == [start, part(b"a"), part(b"b", more=False)]


def test_a_slow_reader_is_waited_for() -> None:
    line = Line()
    assert waits_for_reader(line)
    assert line.written == [b"1\r\na\r\n"]


def test_nothing_is_written_to_who_has_gone() -> None:
    line = Line()
    assert waits_for_reader(line, gone=True)
    run(line, part(b"b"))
    assert line.written == []
