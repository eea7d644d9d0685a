"""The Starlette application."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from chipwise.errors import ChipwiseError
from chipwise.serve.http.chat import chat_route
from chipwise.serve.http.completions import completions_route
from chipwise.serve.http.errors import on_bug, on_chipwise_error, on_disconnect, on_http_error
from chipwise.serve.http.probes import probe_routes
from chipwise.serve.http.service import Service


def create_app(service: Service) -> Starlette:
    """OpenAI's API over a service. The service's loop is started and stopped by others."""
    return Starlette(
        routes=[chat_route(service), completions_route(service), *probe_routes(service)],
        exception_handlers={
            ChipwiseError: on_chipwise_error,
            HTTPException: on_http_error,
            ClientDisconnect: on_disconnect,
            Exception: on_bug,
        },
    )
