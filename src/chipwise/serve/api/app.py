"""The Starlette application."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from chipwise.errors import ChipwiseError, OverloadedError, RequestError, UnavailableError
from chipwise.serve.api.chat import chat_route
from chipwise.serve.api.completions import completions_route
from chipwise.serve.api.embeddings import embeddings_route
from chipwise.serve.api.infer import INFER, infer_routes
from chipwise.serve.api.live_page import live_route
from chipwise.serve.api.probes import probe_routes
from chipwise.serve.api.reload import RELOAD, reload_route
from chipwise.serve.api.shared_memory import shared_memory_routes
from chipwise.serve.api.site import Site
from chipwise.serve.http.body import BodyRoom
from chipwise.serve.http.cut_short import CutShort
from chipwise.serve.http.errors import NOT_SERVED, error_response, on_bug, on_disconnect, on_http_error
from chipwise.serve.http.framing import OneLength
from chipwise.serve.http.guard import Guard
from chipwise.serve.http.traced import Traced, trace_of
from chipwise.serve.observe.metrics import Rejection

# What is said where a route has no model behind it, and how it gets one.
_NO_LANGUAGE_MODEL = ("this server has no language model", "start it with the bundle of one")
_NO_ENCODER = ("this server gives no embeddings", "start it with --embeddings BUNDLE, the bundle of an encoder")
_NOTHING_TO_EXCHANGE = ("this server has nothing to exchange", "start it with `chipwise serve`")
_NO_GRAPH = ("this server runs no plain graph", "start it with --infer BUNDLE, the bundle of one")


def create_app(site: Site) -> Starlette:
    """OpenAI's API over what a site serves. Its workers are started and stopped by others."""
    # Models that answer in one run count their requests themselves.
    of_chat = {"/v1/chat/completions", "/v1/completions"}
    of_models = {*of_chat, "/v1/embeddings", INFER}

    async def on_chipwise_error(request: Request, error: Exception) -> Response:
        if not isinstance(error, ChipwiseError):
            raise error
        reason = _rejection(error) if request.url.path in of_models else None
        if reason is not None:
            site.metrics.rejected(reason)
        if request.method == "POST" and request.url.path in of_chat:
            if isinstance(error, RequestError):
                site.metrics.over("invalid")
            elif reason is not None:
                site.metrics.over("rejected")
        if (trace := trace_of(request)) is not None:
            trace.failed(error)
        return error_response(error)

    async def on_leaving(request: Request, error: Exception) -> Response:
        if (trace := trace_of(request)) is not None:
            trace.error = trace.error or "cancelled"
        return await on_disconnect(request, error)

    # Within the guard: strangers leave no trace.
    traced = [] if site.tracing is None else [Middleware(Traced, tracing=site.tracing)]
    app = Starlette(
        routes=[*_answering(site), *probe_routes(site)],
        exception_handlers={
            ChipwiseError: on_chipwise_error,
            HTTPException: on_http_error,
            ClientDisconnect: on_leaving,
            Exception: on_bug,
        },
        middleware=[Middleware(CutShort), Middleware(OneLength), Middleware(Guard, keys=site.keys), *traced],
    )
    app.state.body_room, app.state.body_turn = BodyRoom(), asyncio.Lock()
    # A client of an API does not follow a redirect, it wants to know that the path is wrong.
    app.router.redirect_slashes = False
    return app


def _rejection(error: ChipwiseError) -> Rejection | None:
    """Why a request was not taken; None if it was."""
    if isinstance(error, OverloadedError):
        return error.shortage
    return "unavailable" if isinstance(error, UnavailableError) else None


def _answering(site: Site) -> Iterator[Route]:
    if site.chat is None:
        yield from (_absent(path, *_NO_LANGUAGE_MODEL) for path in ("/v1/chat/completions", "/v1/completions"))
    else:
        yield chat_route(site.chat, site.settings)
        yield completions_route(site.chat, site.settings)
        yield live_route(site.chat, site.exchange)
    if site.exchange is None:
        yield _absent(RELOAD, *_NOTHING_TO_EXCHANGE)
    else:
        yield reload_route(site.exchange, site.keys)
    if site.embeddings is None:
        yield _absent("/v1/embeddings", *_NO_ENCODER)
    else:
        yield embeddings_route(site.embeddings, site.settings)
    if site.inference is None:
        yield _absent(INFER, *_NO_GRAPH)
    else:
        yield from infer_routes(site.inference, site.settings, site.regions)
    if site.regions is not None:
        yield from shared_memory_routes(site.regions, site.settings)


def _absent(path: str, what: str, remedy: str) -> Route:
    """A route without a model behind it, which says so."""

    async def refuse(request: Request) -> Response:
        del request
        raise RequestError(what, remedy=remedy, code=NOT_SERVED)

    return Route(path, refuse, methods=["GET", "POST"] if path == INFER else ["POST"])
