"""Guard: lets nobody in without a key, where there are keys."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from chipwise.errors import RequestError
from chipwise.serve.http.errors import INVALID_KEY, error_response
from chipwise.serve.http.keys import ANYONE, Client, Keys

_GUARDED = ("/v1/", "/v2/")


class Guard:
    """Middleware that asks for a key on the API's routes, before a body is read. Probes and metrics stay open."""

    def __init__(self, app: ASGIApp, keys: Keys | None) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or pass on."""
        if self._keys is None or scope["type"] != "http" or not scope["path"].startswith(_GUARDED):
            await self._app(scope, receive, send)
            return
        kind, _, key = Headers(scope=scope).get("authorization", "").partition(" ")
        client = self._keys.client(key.strip()) if kind.lower() == "bearer" else None
        if client is None:
            error = RequestError(
                "the API key is none of this server's" if key else "this server asks for an API key",
                remedy="send Authorization: Bearer KEY",
                code=INVALID_KEY,
            )
            response = error_response(error)
            response.headers["www-authenticate"] = "Bearer"
            # The body, if there is one, is not read.
            response.headers["connection"] = "close"
            await response(scope, receive, send)
            return
        scope.setdefault("state", {})["client"] = client
        await self._app(scope, receive, send)


def client_of(request: Request) -> Client:
    """Whom a request comes from."""
    client = request.scope.get("state", {}).get("client", ANYONE)
    if not isinstance(client, Client):
        raise TypeError(f"the state holds {client!r} as client")
    return client
