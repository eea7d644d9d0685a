"""A server that speaks OpenAI's protocol as far as a client of ours does, and misbehaves as told."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

Reply = tuple[int, Any]


class ChatServer:
    """What it was asked, and what it says: ``reply`` is given the body and the number of the request."""

    def __init__(self, reply: Callable[[dict[str, Any], int], Reply]) -> None:
        self.reply = reply
        self.asked: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.url = ""


def says(text: str, **fields: Any) -> Reply:
    return 200, {"choices": [{"message": {"role": "assistant", "content": text, **fields}}]}


@contextmanager
def served(reply: Callable[[dict[str, Any], int], Reply]) -> Iterator[ChatServer]:
    server = ChatServer(reply)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(200, {"data": [{"id": "first"}, {"id": "second"}]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            server.asked.append(body)
            server.headers.append(dict(self.headers))
            self._send(*server.reply(body, len(server.asked)))

        def _send(self, status: int, body: Any) -> None:
            if status == 0:  # a connection that is cut
                self.close_connection = True
                return
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.send_header("Retry-After", "0")
            if 300 <= status < 400:
                self.send_header("Location", body["Location"])
            self.end_headers()
            self.wfile.write(data)

        def handle(self) -> None:
            # A client that gave up is no fault of the server's.
            with suppress(ConnectionError):
                super().handle()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.url = f"http://127.0.0.1:{httpd.server_address[1]}/v1"
    thread = Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        httpd.shutdown()
        thread.join()
        httpd.server_close()
