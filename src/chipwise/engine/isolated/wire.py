"""Wire: small JSON messages between the two processes; arrays go through shared memory. Nothing is unpickled."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from typing import Any

from chipwise import errors
from chipwise.errors import ChipwiseError, EngineError, InputError

Message = Mapping[str, Any]

# A message is a packet, and packets have a limit (net.core.wmem_max is 208 KiB).
_MAX_BYTES = 1 << 17
# Of a reason: packets have a limit, and a line has one too.
_MAX_REASON = 4000


def wire() -> tuple[socket.socket, socket.socket]:
    """Two ends that keep messages apart."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send(end: socket.socket, message: Message) -> None:
    """Send a message.

    Raises:
        InputError: It holds what is no JSON.
        OSError: The other side has ended.
    """
    try:
        data = json.dumps(message).encode()
    except (TypeError, ValueError) as e:
        raise InputError(
            f"the engine's options cannot be handed to a process of its own ({e})",
            where="isolation",
            remedy="serve with --no-isolate",
        ) from e
    end.send(data)


def receive(end: socket.socket) -> dict[str, Any] | None:
    """The next message; None if the other side has ended.

    Raises:
        TimeoutError: None came within the socket's timeout.
        EngineError: It cannot be read.
        OSError: The other side has ended.
    """
    data = end.recv(_MAX_BYTES)
    if not data:
        return None
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as e:
        raise EngineError(f"a message of its process cannot be read ({e})", where="isolation") from e
    if not isinstance(found, dict):
        raise EngineError("a message of its process is no object", where="isolation")
    return found


def error_message(error: Exception) -> Message:
    """An error as a message. What is not chipwise's own becomes an EngineError."""
    if isinstance(error, ChipwiseError):
        fields = {"type": type(error).__name__, "what": error.what, "where": error.where, "remedy": error.remedy}
    else:
        fields = {"type": "EngineError", "what": f"{type(error).__name__}: {error}", "where": None, "remedy": None}
    return {"error": {name: value if value is None else value[:_MAX_REASON] for name, value in fields.items()}}


def raise_error(message: Message) -> None:
    """Raise the error that a message is, if it is one."""
    if "error" not in message:
        return
    fields = message["error"]
    kind = getattr(errors, str(fields["type"]), EngineError)
    if not (isinstance(kind, type) and issubclass(kind, ChipwiseError)):
        kind = EngineError
    raise kind(str(fields["what"]), where=fields["where"], remedy=fields["remedy"])
