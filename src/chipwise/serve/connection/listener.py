"""Listener: the socket the server will listen on, taken before the model is loaded."""

from __future__ import annotations

import errno
import socket

from chipwise.errors import InputError, PortInUseError

BACKLOG = 512
"""Connections that the kernel holds until they are accepted."""


def bind(host: str, port: int) -> socket.socket:
    """A bound TCP socket that does not listen yet: until the model is ready, clients are refused.

    Args:
        host: Address or name, IPv4 or IPv6.
        port: Port; 0 takes a free one.

    Raises:
        PortInUseError: The port is taken.
        InputError: The address is none of this machine's, or the port may not be used.
    """
    where = f"{host}:{port}"
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError, OverflowError) as e:
        raise InputError(f"no address to listen on ({e})", where=where, remedy="give an address of this machine") from e
    family, kind, protocol, _, address = found[0]
    listener = socket.socket(family, kind, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
    except OSError as e:
        listener.close()
        raise _refusal(e, where) from e
    return listener


def listen(listener: socket.socket) -> None:
    """Begin to listen.

    Raises:
        PortInUseError: Another process took the port in the meantime.
    """
    try:
        listener.listen(BACKLOG)
    except OSError as e:
        host, port = listener.getsockname()[:2]
        raise _refusal(e, f"{host}:{port}") from e


def url_of(listener: socket.socket) -> str:
    """Where clients find it: ``http://127.0.0.1:8000``."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _refusal(error: OSError, where: str) -> InputError:
    if error.errno == errno.EADDRINUSE:
        return PortInUseError("the port is in use", where=where, remedy="stop what uses it, or choose another --port")
    return InputError(f"cannot listen ({error.strerror})", where=where, remedy="choose another --host or --port")
