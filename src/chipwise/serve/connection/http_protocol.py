"""HttpProtocol: HTTP as uvicorn speaks it, with OpenAI's error object for what is no HTTP, and an end to waiting."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from chipwise.errors import RequestError
from chipwise.serve.connection.chunk_writer import ChunkWriter
from chipwise.serve.connection.crowd import Crowd
from chipwise.serve.connection.lingering import LingeringTransport
from chipwise.serve.http.caller import CONNECTION, Connection
from chipwise.serve.http.errors import error_body

_TEXTS = {
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: "the request's line and headers are larger than this server takes",
}


MAX_HEAD_BYTES = 16 << 10
"""The longest line and headers of a request."""

_EMPTY_LINES = b"\r\n"
# How long a request's line and headers may take from their first byte on: nobody types them.
_HEAD_S = 30.0

# uvicorn warns of every request that is none. Its client is told; a line each would let anybody fill a disk.
_logger = logging.getLogger(f"{__name__}.uvicorn")
_logger.setLevel(logging.ERROR)


class HttpProtocol(H11Protocol):
    """Answers a request that breaks the protocol like any other that is wrong, and closes the connection.

    A connection without a request is closed after the time that idle ones have, one that begins a request and does not
    go on after 30 seconds, and sooner if there are too many: see ``Crowd``.

    Args:
        crowd: Who else is there.
        settings: What uvicorn gives its protocols.
    """

    def __init__(self, *, crowd: Crowd, **settings: Any) -> None:
        super().__init__(**settings)
        self.logger = _logger
        self._crowd = crowd
        self._ends = False
        self._idle_since_s = self.loop.time()
        self._head_timer: asyncio.TimerHandle | None = None
        self._answer: Any = self.app
        self.app = self._answer_in_chunks

    @property
    def idle_since_s(self) -> float | None:
        """Since when there is no request, on the event loop's clock; None while there is one."""
        ended = self.transport.is_closing() or self.cycle is None or self.cycle.response_complete
        return self._idle_since_s if ended else None

    @property
    def is_over(self) -> bool:
        """Whether it is closed, but for a round of the event loop."""
        return isinstance(self.transport, LingeringTransport) and self.transport.is_over

    def shutdown(self) -> None:
        """The server ends: finish the answer that is on its way, and wait for no client that only sends."""
        self._ends = True
        if self.transport.is_closing():
            self.transport.close()
        else:
            super().shutdown()

    def show_out(self) -> None:
        """Close the connection at once."""
        self.transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Keep what is found out of the other end beside the requests that come from it; see that there is room."""
        super().connection_made(LingeringTransport(transport, self._client_sends, self.loop))
        self.app_state = {**self.app_state, CONNECTION: Connection()}
        # As after an answer: uvicorn would wait for a first request for ever.
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)
        # One that was closed a moment ago is still among them.
        there = [one for one in self.connections if isinstance(one, HttpProtocol) and not one.is_over]
        if not self._crowd.admit(self, there):
            self.show_out()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let nothing wait for it any more."""
        self._unset_head_timer()
        if isinstance(self.transport, LingeringTransport):
            self.transport.let_go()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The client reads more slowly than it is written to; if it reads nothing, nobody waits for it."""
        super().pause_writing()
        if isinstance(self.transport, LingeringTransport):
            self.transport.watch_reader()

    def resume_writing(self) -> None:
        """It has read."""
        super().resume_writing()
        if isinstance(self.transport, LingeringTransport):
            self.transport.reader_is_there()

    def data_received(self, data: bytes) -> None:
        """Take the next bytes; those of a request that has not begun must become one in time."""
        if self.transport.is_closing():
            return
        if self._awaits_request and not self.conn.trailing_data[0] and not data.lstrip(_EMPTY_LINES):
            # They begin nothing, and win a silent connection no time.
            return
        super().data_received(data)
        if self.idle_since_s is None or self.transport.is_closing():
            self._unset_head_timer()
        elif self._awaits_request and not self.conn.trailing_data[0]:
            # The end of a body that nobody read: no request has begun, and the connection is idle as before.
            self._unset_head_timer()
            self._unset_keepalive_if_required()
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(_HEAD_S, self._head_is_late)

    def handle_events(self) -> None:
        """Read what came; empty lines before a request are passed over, as RFC 9112 (2.2) would have it."""
        if self._awaits_request and (waiting := self.conn.trailing_data[0]).startswith((b"\r", b"\n")):
            # What h11 holds cannot be taken from it; between two requests a new connection of its is as good. Nothing
            # at all would tell it that the client has closed.
            self.conn = h11.Connection(h11.SERVER, MAX_HEAD_BYTES)
            if rest := waiting.lstrip(_EMPTY_LINES):
                self.conn.receive_data(rest)
        super().handle_events()

    @property
    def _awaits_request(self) -> bool:
        return self.conn.their_state is h11.IDLE and self.conn.our_state is h11.IDLE

    def _client_sends(self) -> bool:
        """Whether there is more of a request than was read, or may be, and the server has time to wait for it."""
        if self._ends:
            return False
        return self.conn.their_state in (h11.SEND_BODY, h11.ERROR) or bool(self.conn.trailing_data[0])

    def on_response_complete(self) -> None:
        """The connection is idle again."""
        self._idle_since_s = self.loop.time()
        super().on_response_complete()

    def _unset_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        self._head_timer = None
        if self.idle_since_s is None or self.transport.is_closing():
            return
        if self.conn.our_state is h11.IDLE:
            text = f"the request's line and headers were not complete within {_HEAD_S:g} s"
            self._say(HTTPStatus.REQUEST_TIMEOUT, RequestError(text, code="request_timeout"))
        # Else the rest of a body that nobody reads is late.
        self.transport.close()

    async def _answer_in_chunks(self, scope: Any, receive: Any, send: Any) -> None:
        """Let the application answer a request. Called as its cycle begins."""
        await self._answer(scope, receive, ChunkWriter(self, scope, send))

    def send_400_response(self, msg: str) -> None:
        """Refuse what the connection's last bytes were to be. Called while the error of h11 is handled."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._refuse(sys.exc_info()[1], msg)
        # An answer that has begun cannot be taken back; one that has not is written by nobody else.
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()

    def _refuse(self, error: BaseException | None, msg: str) -> None:
        status, text = HTTPStatus.BAD_REQUEST, msg
        if isinstance(error, h11.ProtocolError):
            status = HTTPStatus(error.error_status_hint)
            text = _TEXTS.get(status, f"the request is no valid HTTP ({error})")
        self._say(status, RequestError(text, code="invalid_http"))

    def _say(self, status: HTTPStatus, error: RequestError) -> None:
        """Write an error that no application answers with."""
        body = json.dumps(error_body(error)).encode()
        headers = [
            ("content-type", "application/json"),
            # Without it h11 would write the body in chunks.
            ("content-length", str(len(body))),
            ("connection", "close"),
        ]
        response = h11.Response(status_code=status, headers=headers, reason=status.phrase)
        asked_head = self.conn.our_state is h11.SEND_RESPONSE and self.scope["method"] == "HEAD"
        for event in (response, h11.Data(data=b"" if asked_head else body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
