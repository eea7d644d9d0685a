"""Reading a request's body within bounds."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import Request

from chipwise.errors import OverloadedError

# So much of each body is always taken: whoever asks for little is not kept waiting by large uploads.
_SMALL_BYTES = 1 << 16
# What all bodies that are on their way may hold beyond that.
_MOST_BYTES = 256 << 20
# As long as a slow one may take.
_RETRY_S = 30


class BodyRoom:
    """The memory of all large bodies that are on their way. To be used in the event loop's thread.

    Args:
        most_bytes: What they may hold together.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self.held_bytes = 0
        """What they hold."""

    def take(self, n_bytes: int) -> None:
        """Hold more.

        Raises:
            OverloadedError: That would be too much.
        """
        if self.held_bytes + n_bytes > self._most_bytes:
            raise OverloadedError(
                f"large requests that are still being sent hold the {self._most_bytes} bytes that they may",
                remedy="send it again later",
                retry_after_s=_RETRY_S,
                shortage="bodies",
            )
        self.held_bytes += n_bytes

    def give_back(self, n_bytes: int) -> None:
        """Hold less."""
        self.held_bytes -= n_bytes


async def read_body(request: Request, max_bytes: int, timeout_s: float) -> bytes:
    """The body of a request.

    Raises:
        HTTPException: It is longer than ``max_bytes`` (413), or not there within ``timeout_s`` (408).
        OverloadedError: Other large bodies leave no memory for it.
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
    room: BodyRoom = request.app.state.body_room
    body, held = bytearray(), 0
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > max_bytes:
                raise _too_large(max_bytes)
            more = len(body) - _SMALL_BYTES - held
            if more > 0:
                room.take(more)
                held += more
        return bytes(body)
    finally:
        room.give_back(held)


def _too_large(max_bytes: int) -> HTTPException:
    return HTTPException(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        f"the body is larger than the {max_bytes} bytes this server takes",
        headers={"connection": "close"},  # the rest of the body is not read
    )
