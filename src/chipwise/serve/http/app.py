"""The Starlette application."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from chipwise.errors import ChipwiseError, RequestError
from chipwise.serve.http.chat import chat_route
from chipwise.serve.http.completions import completions_route
from chipwise.serve.http.errors import error_response, on_bug, on_disconnect, on_http_error
from chipwise.serve.http.framing import OneLength
from chipwise.serve.http.guard import Guard
from chipwise.serve.http.live_page import live_route
from chipwise.serve.http.probes import probe_routes
from chipwise.serve.http.service import Service


def create_app(service: Service) -> Starlette:
    """OpenAI's API over a service. The service's loop is started and stopped by others."""

    async def on_chipwise_error(request: Request, error: Exception) -> Response:
        if not isinstance(error, ChipwiseError):
            raise error
        if isinstance(error, RequestError) and request.method == "POST":
            service.metrics.over("invalid")
        return error_response(error)

    app = Starlette(
        routes=[chat_route(service), completions_route(service), *probe_routes(service), live_route(service)],
        exception_handlers={
            ChipwiseError: on_chipwise_error,
            HTTPException: on_http_error,
            ClientDisconnect: on_disconnect,
            Exception: on_bug,
        },
        middleware=[Middleware(OneLength), Middleware(Guard, keys=service.keys)],
    )
    # A client of an API does not follow a redirect, it wants to know that the path is wrong.
    app.router.redirect_slashes = False
    return app
