"""Reading a request's body within bounds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, TypeVar

from anyio import to_thread
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from chipwise.errors import OverloadedError
from chipwise.serve.http.leaving import until_disconnect

_T = TypeVar("_T")

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


class _Hold:
    """What one body holds of the room."""

    def __init__(self, room: BodyRoom) -> None:
        self._room, self._held_bytes = room, 0

    def grow_to(self, n_bytes: int) -> None:
        """Hold what a body of this length has to; see ``BodyRoom.take``."""
        more = n_bytes - _SMALL_BYTES - self._held_bytes
        if more > 0:
            self._room.take(more)
            self._held_bytes += more

    def let_go(self) -> None:
        """Hold nothing."""
        self._room.give_back(self._held_bytes)
        self._held_bytes = 0


async def read_body(request: Request, max_bytes: int, timeout_s: float) -> bytes:
    """The body of a request.

    Raises:
        HTTPException: It is longer than ``max_bytes`` (413), or not there within ``timeout_s`` (408).
        OverloadedError: Other large bodies leave no memory for it.
        ClientDisconnect: The client went away while it sent.
    """
    return await read_as(_as_it_is, request, max_bytes, timeout_s)


async def read_as(read: Callable[[bytes], _T], request: Request, max_bytes: int, timeout_s: float) -> _T:
    """What is made of the body of a request.

    A large one is read in a thread, so that others are answered meanwhile, and one at a time: they would only take the
    interpreter from each other, and from those others. Until then it counts as on its way.

    Args:
        read: Makes it of the bytes.
        request: The request.
        max_bytes: How long the body may be.
        timeout_s: How long it may take to come.

    Raises:
        HTTPException: It is longer than ``max_bytes`` (413), or not there within ``timeout_s`` (408).
        OverloadedError: Other large bodies leave no memory for it.
        ClientDisconnect: The client went away before it was read.
    """
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > max_bytes:
        raise _too_large(max_bytes)
    hold = _Hold(request.app.state.body_room)
    try:
        body = await _whole(request, max_bytes, timeout_s, hold)
        if len(body) <= _SMALL_BYTES or read is _as_it_is:
            return read(body)
        async with _turn(request):
            return await to_thread.run_sync(read, body)
    finally:
        hold.let_go()


@asynccontextmanager
async def _turn(request: Request) -> AsyncIterator[None]:
    """Wait until no other large body is read; who leaves meanwhile gives it up."""
    lock: asyncio.Lock = request.app.state.body_turn
    mine = asyncio.create_task(lock.acquire())
    gone = asyncio.create_task(until_disconnect(request.receive))
    try:
        await asyncio.wait((mine, gone), return_when=asyncio.FIRST_COMPLETED)
        if gone.done():
            raise ClientDisconnect
        yield
    finally:
        for task in (mine, gone):
            task.cancel()
        await asyncio.gather(mine, gone, return_exceptions=True)
        if not mine.cancelled():
            lock.release()


def _as_it_is(body: bytes) -> Any:
    return body


async def _whole(request: Request, max_bytes: int, timeout_s: float, hold: _Hold) -> bytes:
    try:
        return await asyncio.wait_for(_chunks(request, max_bytes, hold), timeout_s)
    except asyncio.TimeoutError as e:
        raise HTTPException(
            HTTPStatus.REQUEST_TIMEOUT,
            f"the body was not complete within {timeout_s:g} s",
            headers={"connection": "close"},
        ) from e


async def _chunks(request: Request, max_bytes: int, hold: _Hold) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > max_bytes:
            raise _too_large(max_bytes)
        hold.grow_to(len(body))
    return bytes(body)


def _too_large(max_bytes: int) -> HTTPException:
    return HTTPException(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        f"the body is larger than the {max_bytes} bytes this server takes",
        headers={"connection": "close"},  # the rest of the body is not read
    )
