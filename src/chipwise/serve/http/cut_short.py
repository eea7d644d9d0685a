"""CutShort: answers a request that the server's end cuts short."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from chipwise.errors import UnavailableError
from chipwise.serve.http.errors import error_response


class CutShort:
    """Middleware, the outermost, for what uvicorn gives up when it ends: clients that still send their requests.

    Left alone, each would get a text of uvicorn's, and the log a traceback for what a client did.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on; if it is given up before its answer began, the answer is 503."""
        begun = False

        async def note(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, note)
        except asyncio.CancelledError:
            # The task ends here. An answer that began breaks off with its connection.
            if not begun:
                response = error_response(UnavailableError("the server shut down before the request was complete"))
                response.headers["connection"] = "close"
                await response(scope, receive, send)
