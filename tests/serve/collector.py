"""A collector of traces in the test's process: OTLP over HTTP, decoded from its real protobuf."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collector:
    """What came so far.

    Attributes:
        url: Where it listens, without a path.
        status: What it answers.
        requests: Requests, decoded.
        paths: Their paths.
        headers: Their headers.
    """

    def __init__(self, port: int = 0) -> None:
        self.status = 200
        self.requests: list[ExportTraceServiceRequest] = []
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                collector.paths.append(self.path)
                collector.headers.append({name.lower(): value for name, value in self.headers.items()})
                if collector.status == 200:
                    collector.requests.append(ExportTraceServiceRequest.FromString(body))
                self.send_response(collector.status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    @property
    def spans(self) -> list[Span]:
        return [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    @property
    def resource(self) -> dict[str, object]:
        """What the last request says of its sender."""
        return values(self.requests[-1].resource_spans[0].resource.attributes)

    def roots(self) -> list[Span]:
        """The spans of requests, in the order they began."""
        return sorted((span for span in self.spans if span.kind == Span.SPAN_KIND_SERVER), key=began)

    def children(self, root: Span) -> list[Span]:
        return sorted((span for span in self.spans if span.parent_span_id == root.span_id), key=began)


def began(span: Span) -> int:
    return span.start_time_unix_nano


def values(attributes) -> dict[str, object]:
    """Attributes as Python's values."""
    found: dict[str, object] = {}
    for one in attributes:
        kind = one.value.WhichOneof("value")
        value = getattr(one.value, kind)
        found[one.key] = [v.string_value for v in value.values] if kind == "array_value" else value
    return found


@contextmanager
def collecting() -> Iterator[Collector]:
    collector = Collector()
    try:
        yield collector
    finally:
        collector.stop()
