"""AnswerResponse: sends an answer as it comes, and gives it up when the client goes away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from chipwise.serve.events import Event, Failure, Piece
from chipwise.serve.http import sse
from chipwise.serve.http.errors import error_body, error_response
from chipwise.serve.http.form import Form
from chipwise.serve.mailbox import Mailbox


class AnswerResponse:
    """The response to one request, as an ASGI application.

    Nothing is sent before the first event, so that a request which fails at once gets the right status.

    Args:
        mailbox: Where the answer's events come from.
        form: How they are written.
        head: The fields that begin every object of the answer.
        stream: Whether to send each event as it comes, or the whole at the end.
        give_up: Called when nobody waits for the answer any more, also once it is complete.
    """

    def __init__(self, mailbox: Mailbox, form: Form, answer_id: str, *, stream: bool, give_up: Callable[[], None]):
        self._mailbox = mailbox
        self._form = form
        self._headers = {"x-request-id": answer_id, "cache-control": "no-store"}
        self._stream = stream
        self._give_up = give_up

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer."""
        work = asyncio.create_task(self._respond(scope, receive, send))
        gone = asyncio.create_task(_until_disconnect(receive))
        try:
            await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
        finally:
            self._give_up()
            work.cancel()
            gone.cancel()
            await asyncio.gather(work, gone, return_exceptions=True)

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        events = await self._mailbox.get()
        if isinstance(events[0], Failure):
            await error_response(events[0].error)(scope, receive, send)
        elif self._stream:
            stream = StreamingResponse(self._chunks(events), headers=self._headers, media_type="text/event-stream")
            await stream.stream_response(send)
        else:
            response = await self._whole(events)
            await response(scope, receive, send)

    async def _chunks(self, events: list[Event]) -> AsyncIterator[bytes]:
        """The stream, each part as long as what has come since the last was sent."""
        chunks = [sse.event(chunk) for chunk in self._form.opening()]
        while True:
            for event in events:
                chunks += [sse.event(data) for data in self._written(event)]
            if not isinstance(events[-1], Piece):
                yield b"".join([*chunks, sse.DONE])
                return
            yield b"".join(chunks)
            chunks = []
            events = await self._mailbox.get()

    def _written(self, event: Event) -> list[dict[str, Any]]:
        if isinstance(event, Piece):
            return self._form.piece(event)
        return [error_body(event.error)] if isinstance(event, Failure) else self._form.ending(event)

    async def _whole(self, events: list[Event]) -> Response:
        pieces: list[Piece] = []
        while True:
            for event in events:
                if isinstance(event, Failure):
                    return error_response(event.error)
                if not isinstance(event, Piece):
                    return JSONResponse(self._form.whole(pieces, event), headers=self._headers)
                pieces.append(event)
            events = await self._mailbox.get()


async def _until_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
