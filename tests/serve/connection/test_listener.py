from __future__ import annotations

import socket
from contextlib import closing
from unittest.mock import patch

import pytest

from chipwise.errors import InputError, PortInUseError
from chipwise.serve.connection.listener import bind, listen, url_of


def test_free_port_is_taken_but_does_not_listen_yet() -> None:
    with closing(bind("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert url_of(listener) == f"http://127.0.0.1:{port}"
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=1)
        listen(listener)
        socket.create_connection(("127.0.0.1", port), timeout=1).close()


def test_port_in_use() -> None:
    with closing(bind("127.0.0.1", 0)) as first:
        listen(first)
        port = first.getsockname()[1]
        with pytest.raises(PortInUseError, match=rf"^127.0.0.1:{port}: the port is in use; stop what uses it, or"):
            bind("127.0.0.1", port)


def test_port_taken_in_the_meantime() -> None:
    with closing(bind("127.0.0.1", 0)) as first, closing(bind("127.0.0.1", first.getsockname()[1])) as second:
        listen(first)
        with pytest.raises(PortInUseError):
            listen(second)


@pytest.mark.parametrize("host", ["no-such-host.invalid", "192.0.2.1", "a b", "é" * 80])
def test_address_that_is_not_ours(host: str) -> None:
    with pytest.raises(InputError) as caught:
        bind(host, 0)
    assert not isinstance(caught.value, PortInUseError)
    assert caught.value.where == f"{host}:0"


def test_port_that_may_not_be_used() -> None:
    with (
        patch("socket.socket.bind", side_effect=PermissionError(13, "Permission denied")),
        pytest.raises(InputError, match=r"127\.0\.0\.1:80: cannot listen"),
    ):
        bind("127.0.0.1", 80)


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
def test_ipv6() -> None:
    try:
        listener = bind("::1", 0)
    except InputError:
        pytest.skip("no IPv6 address here")
    with closing(listener):
        assert url_of(listener) == f"http://[::1]:{listener.getsockname()[1]}"
