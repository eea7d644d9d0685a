"""Noticing that a client goes away."""

from __future__ import annotations

from starlette.types import Receive


async def until_disconnect(receive: Receive) -> None:
    """Wait until the client has gone. The request's body has been read, and nobody else receives meanwhile.

    Args:
        receive: The request's.
    """
    while (await receive())["type"] != "http.disconnect":
        pass
