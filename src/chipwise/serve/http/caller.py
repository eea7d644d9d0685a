"""Who calls: whether it is a program of the server's own user on this machine."""

from __future__ import annotations

import ipaddress
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from starlette.requests import Request

from chipwise.errors import RequestError
from chipwise.serve.http.errors import NOT_ALLOWED, NOT_LOCAL

# The kernel's tables of sockets: address and port of both ends, and whose a socket is.
_TABLES = {4: Path("/proc/net/tcp"), 6: Path("/proc/net/tcp6")}
_LOCAL, _REMOTE, _UID = 1, 2, 7
_ROOT = 0
# What a proxy of that user adds, or a page in its browser: whoever is behind it may be anybody.
_FROM_ELSEWHERE = ("forwarded", "x-forwarded-for", "x-real-ip", "via", "origin")

CONNECTION = "connection"
"""Where a request's state holds its connection."""

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
End: TypeAlias = tuple[Address, int]


@dataclass(eq=False)
class Connection:
    """One connection, for as long as it lasts.

    Attributes:
        uid: The user that runs the program at its other end; None until somebody asked, and if nobody can tell.
    """

    uid: int | None = None


def require_own_user(request: Request, what: str, remedy: str) -> None:
    """Let only programs in that could do to this process what they please anyway.

    A caller on loopback may be anybody's, or a proxy with the world behind it: what it is, the kernel tells.

    Args:
        request: The request.
        what: What it asks for, as the beginning of a sentence: ``shared memory is``.
        remedy: What others can do.

    Raises:
        RequestError: It calls from elsewhere, runs as another user or for somebody else, or nobody can tell (403).
    """
    uid = caller_uid(request)
    if uid not in (os.geteuid(), _ROOT):
        raise RequestError(
            f"{what} for programs of the server's own user on its own machine",
            remedy=remedy,
            code=NOT_LOCAL,
        )
    if any(name in request.headers for name in _FROM_ELSEWHERE):
        raise RequestError(
            f"{what} neither for who is behind a proxy nor for a page in a browser", remedy=remedy, code=NOT_ALLOWED
        )


def caller_uid(request: Request) -> int | None:
    """The user that runs the program at the other end of a loopback connection; None if it is none, or unknown."""
    ends = _loopback_ends(request.scope.get("client"), request.scope.get("server"))
    if ends is None:
        return None
    connection = request.scope.get("state", {}).get(CONNECTION)
    known = connection if isinstance(connection, Connection) else Connection()
    if known.uid is None:
        # Once a connection: the kernel writes a table of all sockets for it.
        known.uid = _uid_of(*ends)
    return known.uid


def _uid_of(client: End, server: End) -> int | None:
    # Its own socket has its own end as the local one.
    wanted = [_as_in_table(*client), _as_in_table(*server)]
    rows = _rows(_TABLES[client[0].version])
    return next((int(row[_UID]) for row in rows if [row[_LOCAL], row[_REMOTE]] == wanted), None)


def _loopback_ends(client: Any, server: Any) -> tuple[End, End] | None:
    """Both ends; None if one is not on loopback. A proxy that names the caller it speaks for gives no port."""
    if client is None or server is None:
        return None
    try:
        ends = (_address(client[0]), int(client[1])), (_address(server[0]), int(server[1]))
    except (ValueError, TypeError):
        return None
    return ends if all(address.is_loopback and port for address, port in ends) else None


def _address(host: str) -> Address:
    address = ipaddress.ip_address(host)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return address if mapped is None else mapped


def _as_in_table(address: Address, port: int) -> str:
    """As the kernel prints it: words of four bytes in the machine's order, in hexadecimal digits."""
    packed = address.packed
    words = [int.from_bytes(packed[i : i + 4], sys.byteorder) for i in range(0, len(packed), 4)]
    return "".join(f"{word:08X}" for word in words) + f":{port:04X}"


def _rows(table: Path) -> Iterator[list[str]]:
    try:
        lines = table.read_text("ascii").splitlines()
    except OSError:
        return
    for line in lines[1:]:
        if len(row := line.split()) > _UID:
            yield row
