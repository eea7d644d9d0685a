"""GET /v1/models, /health and /metrics."""

from __future__ import annotations

from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from chipwise.serve.api.site import Listed, Site
from chipwise.serve.http.errors import wrong_model


def probe_routes(site: Site) -> list[Route]:
    """The routes that ask about the server itself."""

    async def models(request: Request) -> Response:
        del request
        return JSONResponse({"object": "list", "data": [_entry(model) for model in site.models]})

    async def model(request: Request) -> Response:
        name = request.path_params["name"]
        found = next((model for model in site.models if model.name == name), None)
        if found is None:
            raise wrong_model(name, site.models[0].name)
        return JSONResponse(_entry(found))

    async def health(request: Request) -> Response:
        del request
        worker = site.worker
        status = "unhealthy" if not worker.healthy else "draining" if worker.draining else "ok"
        body = {"status": status, "model": site.models[0].name}
        chat = None if site.chat is None else site.chat.current.model
        if chat is not None and chat.process is not None:
            body["engine"] = chat.process.state
        if chat is not None and chat.variant is not None:
            body["variant"] = chat.variant
        for shot in site.shots:
            if shot.pipeline.process is not None:
                body[f"{shot.kind}_engine"] = shot.pipeline.process.state
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


def _entry(model: Listed) -> dict[str, Any]:
    return {"id": model.name, "object": "model", "created": model.created_s, "owned_by": "chipwise"}
