"""ChunkWriter: writes the chunks of a stream to its connection, where the HTTP library would look at each."""

from __future__ import annotations

from http import HTTPStatus

from starlette.types import Message, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

_FRAMING = (b"content-length", b"transfer-encoding")


class ChunkWriter:
    """An ASGI send that writes a body's parts itself, once a response of unknown length has begun.

    The frame of a chunk is its length in front and an end of line behind (RFC 9112, section 7.1). To h11 the response
    is one whose body has not come yet; it writes the last part and the end. That is a quarter of what a streamed token
    costs in the event loop's thread.

    Args:
        protocol: The connection, with the request that is answered.
        scope: The request.
        send: What sends all the rest.
    """

    def __init__(self, protocol: H11Protocol, scope: Scope, send: Send) -> None:
        self._cycle = protocol.cycle
        self._flow = protocol.flow
        self._transport = protocol.transport
        self._send = send
        # Others get a body without frames, or none.
        self._takes_chunks = scope["http_version"] == "1.1" and scope["method"] != "HEAD"
        self._in_chunks = False

    async def __call__(self, message: Message) -> None:
        """Send a message; a part of a body waits for a client that is slow to read."""
        if not (self._in_chunks and message.get("more_body")):
            await self._send(message)
            if message["type"] == "http.response.start":
                self._in_chunks = self._takes_chunks and _has_no_length(message)
            return
        if self._flow.write_paused and not self._cycle.disconnected:
            await self._flow.drain()
        # An empty chunk would be the end.
        if (body := message.get("body")) and not self._cycle.disconnected:
            self._transport.write(b"%x\r\n%b\r\n" % (len(body), body))


def _has_no_length(start: Message) -> bool:
    return start["status"] == HTTPStatus.OK and not any(name.lower() in _FRAMING for name, _ in start["headers"])
