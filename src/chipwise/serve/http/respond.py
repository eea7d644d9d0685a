"""AnswerResponse: sends an answer as it comes, and gives it up when the client goes away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from chipwise.serve.events import Failure, Finish, Piece
from chipwise.serve.http import sse
from chipwise.serve.http.errors import error_body, error_response
from chipwise.serve.http.form import Form, Frame
from chipwise.serve.http.leaving import until_disconnect
from chipwise.serve.mailbox import Delivery, Mailbox
from chipwise.serve.trace import Trace


class AnswerResponse:
    """The response to one request, as an ASGI application.

    Nothing is sent before the first event, so that a request which fails at once gets the right status. A choice that
    fails ends the response, and with it the others: a part of what was asked for is no answer.

    Args:
        mailbox: Where the events of the choices come from.
        frame: What stands around the choices.
        forms: How each choice is written.
        stream: Whether to send each event as it comes, or the whole at the end.
        give_up: Called when nobody waits for the answer any more, also once it is complete.
        trace: What is kept of the request; None if nobody traces.
    """

    def __init__(
        self,
        mailbox: Mailbox,
        frame: Frame,
        forms: Sequence[Form],
        *,
        stream: bool,
        give_up: Callable[[], None],
        trace: Trace | None = None,
    ) -> None:
        self._mailbox = mailbox
        self._frame = frame
        self._forms = forms
        self._headers = {"x-request-id": frame.answer_id, "cache-control": "no-store"}
        self._stream = stream
        self._give_up = give_up
        self._trace = trace

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer."""
        work = asyncio.create_task(self._respond(scope, receive, send))
        gone = asyncio.create_task(until_disconnect(receive))
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
        deliveries = await self._mailbox.get()
        _, first = deliveries[0]
        if isinstance(first, Failure):
            await error_response(first.error)(scope, receive, send)
        elif self._stream:
            stream = StreamingResponse(self._chunks(deliveries), headers=self._headers, media_type="text/event-stream")
            await stream.stream_response(send)
        else:
            response = await self._whole(deliveries)
            await response(scope, receive, send)

    async def _chunks(self, deliveries: list[Delivery]) -> AsyncIterator[bytes]:
        """The stream, each part as long as what has come since the last was sent."""
        parts = [chunk for form in self._forms for chunk in form.opening()]
        ends: dict[int, Finish] = {}
        while True:
            failure = None
            for choice, event in deliveries:
                if isinstance(event, Failure):
                    failure = event
                    break
                parts += self._written(choice, event)
                if isinstance(event, Finish):
                    ends[choice] = event
            if failure is not None:
                parts.append(error_body(failure.error))
            elif len(ends) == len(self._forms):
                parts += self._frame.counts(_in_order(ends))
            else:
                yield _wire(parts)
                parts = []
                deliveries = await self._mailbox.get()
                continue
            yield _wire(parts) + sse.DONE
            return

    def _written(self, choice: int, event: Piece | Finish) -> list[dict[str, Any]]:
        form = self._forms[choice]
        if isinstance(event, Piece):
            return form.piece(event)
        parts = form.ending(event)
        self._note_reason(choice, event)
        return parts

    def _note_reason(self, choice: int, finish: Finish) -> None:
        if self._trace is not None:
            self._trace.reasons[choice] = self._forms[choice].reason(finish)

    async def _whole(self, deliveries: list[Delivery]) -> Response:
        pieces: list[list[Piece]] = [[] for _ in self._forms]
        ends: dict[int, Finish] = {}
        while True:
            for choice, event in deliveries:
                if isinstance(event, Failure):
                    return error_response(event.error)
                if isinstance(event, Piece):
                    pieces[choice].append(event)
                else:
                    ends[choice] = event
            if len(ends) == len(self._forms):
                finishes = _in_order(ends)
                choices = [form.whole(said, end) for form, said, end in zip(self._forms, pieces, finishes, strict=True)]
                for choice, finish in ends.items():
                    self._note_reason(choice, finish)
                return JSONResponse(self._frame.whole(choices, finishes), headers=self._headers)
            deliveries = await self._mailbox.get()


def _wire(parts: Sequence[dict[str, Any]]) -> bytes:
    return b"".join(map(sse.event, parts))


def _in_order(ends: dict[int, Finish]) -> list[Finish]:
    return [ends[choice] for choice in sorted(ends)]
