"""Errors as OpenAI's API writes them."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from chipwise.errors import (
    ChipwiseError,
    DeadlineError,
    DependencyError,
    OverloadedError,
    RequestError,
    Shortage,
    UnavailableError,
)

MODEL_NOT_FOUND = "model_not_found"
INVALID_KEY = "invalid_api_key"
NOT_SERVED = "not_served"
ABOVE_CEILING = "priority_not_allowed"
NOT_LOCAL = "not_local"
NOT_ALLOWED = "not_allowed"
BUNDLE_REFUSED = "bundle_refused"

_STATUS_OF_CODE = {
    MODEL_NOT_FOUND: HTTPStatus.NOT_FOUND,
    NOT_SERVED: HTTPStatus.NOT_FOUND,
    INVALID_KEY: HTTPStatus.UNAUTHORIZED,
    ABOVE_CEILING: HTTPStatus.FORBIDDEN,
    NOT_LOCAL: HTTPStatus.FORBIDDEN,
    NOT_ALLOWED: HTTPStatus.FORBIDDEN,
    BUNDLE_REFUSED: HTTPStatus.UNPROCESSABLE_ENTITY,
}

_CODE_OF_SHORTAGE: Mapping[Shortage, str] = {
    "queue": "queue_full",
    "bodies": "bodies_full",
    "board": "board_protected",
}

# A drained server is replaced by the next one.
_RESTART_S = 5


def wrong_model(asked: str, name: str, gives: str = "") -> RequestError:
    """What is said to a request for a model that is not the one of its route (404).

    Args:
        asked: The model it names.
        name: The model there is.
        gives: What that one gives, where others may be served beside it.
    """
    return RequestError(
        f"the model {asked!r} gives no {gives} here" if gives else f"the model {asked!r} does not exist here",
        remedy=f"ask for {name!r}",
        code=MODEL_NOT_FOUND,
        param="model",
    )


def error_body(error: ChipwiseError) -> dict[str, Any]:
    """OpenAI's error object."""
    if isinstance(error, RequestError):
        return _body(str(error), "invalid_request_error", error.code, error.param)
    if isinstance(error, OverloadedError):
        return _body(str(error), "rate_limit_error", _CODE_OF_SHORTAGE[error.shortage])
    if isinstance(error, DeadlineError):
        return _body(str(error), "timeout_error", "deadline_exceeded", "deadline_ms")
    if isinstance(error, DependencyError):
        return _body(str(error), "server_error", "missing_dependency")
    code = "unavailable" if isinstance(error, UnavailableError) else "engine_error"
    return _body(str(error), "server_error", code)


def error_response(error: ChipwiseError) -> Response:
    """The response to a request that fails before its answer begins."""
    headers = {}
    if isinstance(error, OverloadedError):
        headers["retry-after"] = str(error.retry_after_s)
    if isinstance(error, UnavailableError):
        headers["retry-after"] = str(_RESTART_S)
    return JSONResponse(error_body(error), _status(error), headers)


async def on_http_error(request: Request, error: Exception) -> Response:
    """Starlette's handler for routes and methods that do not exist, and bodies that are too large."""
    if not isinstance(error, HTTPException):
        raise error
    status = HTTPStatus(error.status_code)
    place = f"{request.method} {request.url.path}"
    text = {
        HTTPStatus.NOT_FOUND: f"no route {place}",
        HTTPStatus.METHOD_NOT_ALLOWED: f"no route {place}, this path takes {(error.headers or {}).get('Allow')}",
    }.get(status, error.detail)
    code = status.name.lower()
    return JSONResponse(_body(text, "invalid_request_error", code), status, error.headers)


async def on_disconnect(request: Request, error: Exception) -> Response:
    """Starlette's handler for a client that goes away while it still sends: nobody will read this."""
    del request
    if not isinstance(error, ClientDisconnect):
        raise error
    return Response(status_code=HTTPStatus.BAD_REQUEST)


async def on_bug(request: Request, error: Exception) -> Response:
    """Starlette's handler for anything else. The error goes on to the server's log."""
    del request
    return JSONResponse(_body(f"internal error ({type(error).__name__})", "server_error", "internal_error"), 500)


def _status(error: ChipwiseError) -> HTTPStatus:
    if isinstance(error, RequestError):
        return _STATUS_OF_CODE.get(error.code or "", HTTPStatus.BAD_REQUEST)
    if isinstance(error, OverloadedError):
        return HTTPStatus.TOO_MANY_REQUESTS
    if isinstance(error, UnavailableError):
        return HTTPStatus.SERVICE_UNAVAILABLE
    if isinstance(error, DeadlineError):
        return HTTPStatus.GATEWAY_TIMEOUT
    if isinstance(error, DependencyError):
        return HTTPStatus.NOT_IMPLEMENTED
    return HTTPStatus.INTERNAL_SERVER_ERROR


def _body(message: str, kind: str, code: str | None, param: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}
