"""Reading a request's body within bounds."""

from __future__ import annotations

from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import Request


async def read_body(request: Request, max_bytes: int) -> bytes:
    """The body of a request.

    Raises:
        HTTPException: It is longer than ``max_bytes`` (413).
        ClientDisconnect: The client went away while it sent.
    """
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > max_bytes:
        raise _too_large(max_bytes)
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
