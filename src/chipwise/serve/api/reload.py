"""POST /v1/admin/reload: another bundle takes the place of one that is served."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from chipwise.errors import InputError, RequestError
from chipwise.serve.exchange.exchange import Exchange, Exchanged
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
    model: Annotated[str, Field(min_length=1, max_length=4096)] | None = None


def reload_route(exchange: Exchange, keys: Keys | None) -> Route:
    """The route. It answers once the other bundle serves, or is known not to."""

    async def reload(request: Request) -> Response:
        _refuse_strangers(request, keys)
        body = await read_body(request, _MAX_BODY_BYTES, _BODY_TIMEOUT_S)
        fields = read_form(ReloadFields, body or b"{}")
        try:
            return JSONResponse(await _answer(exchange, fields))
        except RequestError:
            raise
        except InputError as e:
            raise RequestError(e.what, where=e.where, remedy=e.remedy, code=BUNDLE_REFUSED, param="bundle") from e

    return Route(RELOAD, reload, methods=["POST"])


async def _answer(exchange: Exchange, fields: ReloadFields) -> dict[str, Any]:
    """What became of the order; of one for all that are served, the first beside the list."""
    if fields.bundle is not None or fields.model is not None:
        path = None if fields.bundle is None else Path(fields.bundle)
        return _told(await asyncio.wrap_future(exchange.order(path, fields.model)))
    told = [_told(done) for done in await asyncio.wrap_future(exchange.reread())]
    return {**told[0], "models": told}


def _told(done: Exchanged) -> dict[str, Any]:
    return {
        "model": done.service.name,
        "system_fingerprint": done.service.fingerprint,
        "bundle": str(done.path),
        "changed": done.changed,
        "took_s": round(done.took_s, 3),
    }


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
