"""GET /v1/models, /health and /metrics."""

from __future__ import annotations

from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from chipwise.serve.http.service import Service


def probe_routes(service: Service) -> list[Route]:
    """The routes that ask about the server itself."""
    entry: dict[str, Any] = {
        "id": service.model.name,
        "object": "model",
        "created": service.model.created_s,
        "owned_by": "chipwise",
    }

    async def models(request: Request) -> Response:
        del request
        return JSONResponse({"object": "list", "data": [entry]})

    async def model(request: Request) -> Response:
        service.check_model(request.path_params["name"])
        return JSONResponse(entry)

    async def health(request: Request) -> Response:
        del request
        loop = service.loop
        status = "unhealthy" if not loop.healthy else "draining" if loop.draining else "ok"
        return JSONResponse({"status": status, "model": service.model.name}, 200 if status == "ok" else 503)

    async def metrics(request: Request) -> Response:
        del request
        return Response(service.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    return [
        Route("/v1/models", models),
        Route("/v1/models/{name:path}", model),
        Route("/health", health),
        Route("/metrics", metrics),
    ]
