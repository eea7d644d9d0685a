"""GET /v1/models, /health and /metrics."""

from __future__ import annotations

from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from chipwise.serve.http.errors import wrong_model
from chipwise.serve.http.site import Site


def probe_routes(site: Site) -> list[Route]:
    """The routes that ask about the server itself."""
    entries: dict[str, dict[str, Any]] = {
        model.name: {"id": model.name, "object": "model", "created": model.created_s, "owned_by": "chipwise"}
        for model in site.models
    }

    async def models(request: Request) -> Response:
        del request
        return JSONResponse({"object": "list", "data": list(entries.values())})

    async def model(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in entries:
            raise wrong_model(name, next(iter(entries)))
        return JSONResponse(entries[name])

    async def health(request: Request) -> Response:
        del request
        worker = site.worker
        status = "unhealthy" if not worker.healthy else "draining" if worker.draining else "ok"
        body = {"status": status, "model": next(iter(entries))}
        if site.chat is not None and site.chat.model.process is not None:
            body["engine"] = site.chat.model.process.state
        return JSONResponse(body, 200 if status == "ok" else 503)

    async def metrics(request: Request) -> Response:
        del request
        return Response(site.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    return [
        Route("/v1/models", models),
        Route("/v1/models/{name:path}", model),
        Route("/health", health),
        Route("/metrics", metrics),
    ]
