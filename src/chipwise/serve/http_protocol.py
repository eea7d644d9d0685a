"""HttpProtocol: HTTP as uvicorn speaks it, with OpenAI's error object for what is no HTTP."""

from __future__ import annotations

import asyncio
import json
import sys
from http import HTTPStatus

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from chipwise.errors import RequestError
from chipwise.serve.http.caller import CONNECTION, Connection
from chipwise.serve.http.errors import error_body

_TEXTS = {
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: "the request's line and headers are larger than this server takes",
}


class HttpProtocol(H11Protocol):
    """Answers a request that breaks the protocol like any other that is wrong, and closes the connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Keep what is found out of the other end beside the requests that come from it."""
        super().connection_made(transport)
        self.app_state = {**self.app_state, CONNECTION: Connection()}

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
        body = json.dumps(error_body(RequestError(text, code="invalid_http"))).encode()
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
