"""Tensors in shared memory: the routes that register it, and the parameters that point into it.

Both have the form of Triton's system shared memory extension, so that its clients' code fits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from chipwise.errors import RequestError
from chipwise.serve.http.body import read_body
from chipwise.serve.http.caller import require_own_user
from chipwise.serve.http.fields import read_form
from chipwise.serve.inference.regions import Region, Regions
from chipwise.serve.inference.tensor import bad
from chipwise.serve.settings import ServeSettings

ROOT = "/v2/systemsharedmemory"
_FOR_WHOM = ("shared memory is", "send the tensors in the request")
_ONE = f"{ROOT}/region/{{name}}"
_MAX_BYTES = 1 << 62
_MAX_BODY_BYTES = 1 << 16

Bytes = Annotated[int, Field(ge=0, le=_MAX_BYTES)]
SomeBytes = Annotated[int, Field(ge=1, le=_MAX_BYTES)]
Memory = Callable[[], Regions]
"""Gives the regions to a caller that may use them.

Raises:
    RequestError: It may not.
"""


class RegisterFields(BaseModel):
    """The body of a registration."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)

    key: str
    offset: Bytes = 0
    byte_size: SomeBytes


class MemoryParameters(BaseModel):
    """Where in shared memory a tensor lies."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)

    shared_memory_region: str | None = None
    shared_memory_offset: Bytes | None = None
    shared_memory_byte_size: SomeBytes | None = None

    def view(self, memory: Memory, where: str) -> memoryview | None:
        """The bytes; None if it lies elsewhere.

        Raises:
            RequestError: It is no part of a region, or the caller may use none.
        """
        region, size = self.shared_memory_region, self.shared_memory_byte_size
        if region is None and size is None and self.shared_memory_offset is None:
            return None
        for field, value in (("shared_memory_region", region), ("shared_memory_byte_size", size)):
            if value is None:
                raise bad(f"{where}.{field}", "is missing beside the others")
        found = memory().region(str(region), f"{where}.shared_memory_region")
        return found.view(self.shared_memory_offset or 0, int(size or 0), f"{where}.shared_memory_byte_size")


def _none() -> Regions:
    raise RequestError("this server takes no shared memory", remedy="start it with --shared-memory")


NO_MEMORY: Memory = _none


def memory_of(regions: Regions | None, request: Request) -> Memory:
    """The regions for a request, if it needs them."""

    def look() -> Regions:
        require_own_user(request, *_FOR_WHOM)
        return _none() if regions is None else regions

    return NO_MEMORY if regions is None else look


def shared_memory_routes(regions: Regions, settings: ServeSettings) -> list[Route]:
    """The routes: status, register and unregister, of one region and of all."""

    async def status(request: Request) -> Response:
        require_own_user(request, *_FOR_WHOM)
        name = request.path_params.get("name")
        shown = regions.registered() if name is None else (regions.region(name, "name"),)
        return JSONResponse([_shown(region) for region in shown])

    async def register(request: Request) -> Response:
        require_own_user(request, *_FOR_WHOM)
        body = await read_body(request, min(settings.max_body_bytes, _MAX_BODY_BYTES), settings.body_timeout_s)
        fields = read_form(RegisterFields, body)
        regions.register(request.path_params["name"], fields.key, fields.offset, fields.byte_size)
        return JSONResponse({})

    async def unregister(request: Request) -> Response:
        require_own_user(request, *_FOR_WHOM)
        regions.unregister(request.path_params.get("name"))
        return JSONResponse({})

    return [
        Route(f"{ROOT}/status", status, methods=["GET"]),
        Route(f"{_ONE}/status", status, methods=["GET"]),
        Route(f"{_ONE}/register", register, methods=["POST"]),
        Route(f"{ROOT}/unregister", unregister, methods=["POST"]),
        Route(f"{_ONE}/unregister", unregister, methods=["POST"]),
    ]


def _shown(region: Region) -> dict[str, str | int]:
    return {"name": region.name, "key": region.key, "offset": region.offset, "byte_size": region.byte_size}
