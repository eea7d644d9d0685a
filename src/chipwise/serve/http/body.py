"""Reading a request's body within bounds."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import Request


async def read_body(request: Request, max_bytes: int, timeout_s: float) -> bytes:
    """The body of a request.

    Raises:
        HTTPException: It is longer than ``max_bytes`` (413), or not there within ``timeout_s`` (408).
        ClientDisconnect: The client went away while it sent.
    """
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > max_bytes:
        raise _too_large(max_bytes)
    try:
        return await asyncio.wait_for(_read(request, max_bytes), timeout_s)
    except asyncio.TimeoutError as e:
        raise HTTPException(
            HTTPStatus.REQUEST_TIMEOUT,
            f"the body was not complete within {timeout_s:g} s",
            headers={"connection": "close"},
        ) from e


async def _read(request: Request, max_bytes: int) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > max_bytes:
            raise _too_large(max_bytes)
    return bytes(body)


def _too_large(max_bytes: int) -> HTTPException:
    return HTTPException(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        f"the body is larger than the {max_bytes} bytes this server takes",
        headers={"connection": "close"},  # the rest of the body is not read
    )
