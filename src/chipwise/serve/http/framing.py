"""OneLength: refuses a request that gives its body two lengths."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from chipwise.errors import RequestError
from chipwise.serve.http.errors import error_response


class OneLength:
    """Middleware that refuses Content-Length beside Transfer-Encoding.

    A proxy in front may go by one and this server by the other; then the rest of one client's body is read as the
    next client's request. RFC 9112, section 6.3, lets a server refuse it and has the connection closed.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or pass on."""
        names = {name for name, _ in scope.get("headers", ())}
        if not {b"content-length", b"transfer-encoding"} <= names:
            await self._app(scope, receive, send)
            return
        error = RequestError("the request has both Content-Length and Transfer-Encoding; send one", code="invalid_http")
        response = error_response(error)
        response.headers["connection"] = "close"
        await response(scope, receive, send)
