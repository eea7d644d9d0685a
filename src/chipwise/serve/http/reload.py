"""POST /v1/admin/reload: another bundle takes the place of the one that is served."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from chipwise.errors import InputError, RequestError
from chipwise.serve.exchange import Exchange
from chipwise.serve.http.body import read_body
from chipwise.serve.http.caller import require_own_user
from chipwise.serve.http.errors import BUNDLE_REFUSED, NOT_ALLOWED
from chipwise.serve.http.fields import read_form
from chipwise.serve.http.guard import client_of
from chipwise.serve.http.keys import Keys

RELOAD = "/v1/admin/reload"

_MAX_BODY_BYTES = 1 << 16
_BODY_TIMEOUT_S = 10.0
_FOR_WHOM = ("without keys, exchanging the model is", "ask from there, or serve with --keys")


class ReloadFields(BaseModel):
    """The body of an order to serve another bundle."""

    model_config = ConfigDict(strict=True, extra="forbid")

    bundle: Annotated[str, Field(min_length=1, max_length=4096)] | None = None


def reload_route(exchange: Exchange, keys: Keys | None) -> Route:
    """The route. It answers once the other bundle serves, or is known not to."""

    async def reload(request: Request) -> Response:
        _refuse_strangers(request, keys)
        body = await read_body(request, _MAX_BODY_BYTES, _BODY_TIMEOUT_S)
        fields = read_form(ReloadFields, body or b"{}")
        path = None if fields.bundle is None else Path(fields.bundle)
        try:
            done = await asyncio.wrap_future(exchange.order(path))
        except InputError as e:
            raise RequestError(e.what, where=e.where, remedy=e.remedy, code=BUNDLE_REFUSED, param="bundle") from e
        model = done.service.model
        return JSONResponse(
            {
                "model": model.name,
                "system_fingerprint": model.fingerprint,
                "bundle": str(done.path),
                "changed": done.changed,
                "took_s": round(done.took_s, 3),
            }
        )

    return Route(RELOAD, reload, methods=["POST"])


def _refuse_strangers(request: Request, keys: Keys | None) -> None:
    """Refuse whoever may not say what is served.

    Raises:
        RequestError: The key is none of an administrator, or without keys it is no program of the server's user (403).
    """
    if keys is not None:
        if not client_of(request).admin:
            raise RequestError(
                "this key may not exchange the model",
                remedy="use one that the file of keys marks with admin = true",
                code=NOT_ALLOWED,
            )
        return
    require_own_user(request, *_FOR_WHOM)
