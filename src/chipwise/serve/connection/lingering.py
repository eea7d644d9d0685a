"""LingeringTransport: a connection whose client gets to read the answer before it is closed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

# As long as a body may take that is read.
_MOST_S = 30.0
# After so long without taking a byte of what waits for it a client has gone, or only holds the connection: as nginx's
# send_timeout.
_UNREAD_S = 60.0


class LingeringTransport(asyncio.Transport):
    """A transport whose ``close`` waits for the client, if that still sends; and that waits for no client without end.

    To close a socket that holds bytes which nobody read resets the connection, and a client that sends all of a body
    before it reads finds the error instead of the answer that says why (RFC 9112, section 9.6). So the sending side is
    closed first, and what comes is dropped until the client closes, too.

    Args:
        inner: The connection.
        sends: Whether the client has more to send than was read.
        loop: What the connection runs in.
    """

    def __init__(self, inner: asyncio.Transport, sends: Callable[[], bool], loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._inner = inner
        self._sends = sends
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._reader_timer: asyncio.TimerHandle | None = None

    def watch_reader(self) -> None:
        """See to it that the client goes on reading: the connection is closed if it takes nothing for a minute."""
        if self._reader_timer is None and (unread := self.get_write_buffer_size()):
            self._reader_timer = self._loop.call_later(_UNREAD_S, self._look_at_reader, unread)

    def reader_is_there(self) -> None:
        """All that waited for the client is on its way."""
        if self._reader_timer is not None:
            self._reader_timer.cancel()
            self._reader_timer = None

    def _look_at_reader(self, before: int) -> None:
        self._reader_timer = None
        if self.get_write_buffer_size() >= before:
            self.abort()
        else:
            self.watch_reader()

    def close(self) -> None:
        """Close once the client has closed or 30 seconds have passed, if it still sends; else, or the second time, now.

        What comes meanwhile is to be dropped by the protocol.
        """
        if self._timer is None and not self._inner.is_closing() and self._sends():
            self._timer = self._loop.call_later(_MOST_S, self._inner.abort)
            # A client that has reset the connection meanwhile has no sending side to be told of.
            with suppress(OSError):
                self._inner.write_eof()
            self._inner.resume_reading()
        else:
            self.let_go()
            self._inner.close()
            self.watch_reader()

    def let_go(self) -> None:
        """The connection is lost: nobody is waited for."""
        if self._timer is not None:
            self._timer.cancel()
        self.reader_is_there()

    def abort(self) -> None:
        """Close at once."""
        self.let_go()
        self._inner.abort()

    def is_closing(self) -> bool:
        """Whether nothing more is read or written."""
        return self._timer is not None or self._inner.is_closing()

    @property
    def is_over(self) -> bool:
        """Whether nothing is waited for any more: it goes with the next round of the event loop."""
        return self._inner.is_closing() and not self.get_write_buffer_size()

    def get_write_buffer_size(self) -> int:
        """Bytes that wait for the client."""
        return self._inner.get_write_buffer_size()

    def write(self, data: Any) -> None:
        """Write, unless it is closed."""
        if self._timer is None:
            self._inner.write(data)

    def pause_reading(self) -> None:
        """Read no more for a while."""
        if self._timer is None:
            self._inner.pause_reading()

    def resume_reading(self) -> None:
        """Read on."""
        self._inner.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """What is known of the connection."""
        return self._inner.get_extra_info(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Hand what comes to another protocol."""
        self._inner.set_protocol(protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        """What takes what comes."""
        return self._inner.get_protocol()
