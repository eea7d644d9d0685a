"""AnswerResponse: sends an answer as it comes, and gives it up when the client goes away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from starlette.responses import JSONResponse, Response
from starlette.types import Message, Receive, Scope, Send

from chipwise.serve.http import sse
from chipwise.serve.http.errors import error_body, error_response
from chipwise.serve.http.form import Form, Frame
from chipwise.serve.http.leaving import until_disconnect
from chipwise.serve.loop.mailbox import Delivery, Mailbox
from chipwise.serve.observe.trace import Trace
from chipwise.serve.request.events import Failure, Finish, Piece


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
            await self._send_stream(deliveries, send)
        else:
            response = await self._whole(deliveries)
            await response(scope, receive, send)

    async def _send_stream(self, deliveries: list[Delivery], send: Send) -> None:
        """Send the stream, each part as long as what has come since the last was sent.

        Straight to the server: a token costs no generator and no response object.
        """
        await send(self._start())
        forms, ends = self._forms, dict[int, Finish]()
        parts = [form.opening() for form in forms]
        while True:
            for choice, event in deliveries:
                if isinstance(event, Piece):
                    parts.append(forms[choice].piece(event))
                elif isinstance(event, Finish):
                    parts.append(forms[choice].ending(event))
                    self._note_reason(choice, event)
                    ends[choice] = event
                else:
                    parts.append(sse.event(error_body(event.error)))
                    await send(_body(parts, last=True))
                    return
            if len(ends) == len(forms):
                parts.append(self._frame.counts(_in_order(ends)))
                await send(_body(parts, last=True))
                return
            if any(parts):
                await send(_body(parts))
            parts = []
            deliveries = await self._mailbox.get()

    def _start(self) -> Message:
        headers = {**self._headers, "content-type": "text/event-stream; charset=utf-8"}
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        return {"type": "http.response.start", "status": 200, "headers": raw}

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


def _body(parts: Sequence[bytes], *, last: bool = False) -> Message:
    return {
        "type": "http.response.body",
        "body": b"".join([*parts, sse.DONE] if last else parts),
        "more_body": not last,
    }


def _in_order(ends: dict[int, Finish]) -> list[Finish]:
    return [ends[choice] for choice in sorted(ends)]
