"""Tracing: makes a trace of each request and sends it on, if the server is asked to."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, Protocol
from urllib.parse import urlsplit

from chipwise.errors import DependencyError, InputError
from chipwise.serve.observe.trace import Trace

OPTION = "--otlp-traces-endpoint"
_PATH = "/v1/traces"


class Tracing(Protocol):
    """Sends traces somewhere. Every method may be called from any thread; only ``close`` waits for a collector."""

    def begin(self, operation: str, headers: Mapping[str, str]) -> Trace:
        """A request came.

        Args:
            operation: What it asks for.
            headers: Its HTTP headers, names in lower case.
        """
        ...

    def close(self) -> None:
        """Send what is left, within a few seconds."""
        ...


def traces_url(endpoint: str) -> str:
    """Where traces are sent to.

    Args:
        endpoint: A collector's URL. One without a path gets that of OTLP.

    Raises:
        InputError: It is no such URL.
    """
    try:
        parts = urlsplit(endpoint)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        sound = False
    if not sound or any(char.isspace() or not char.isprintable() for char in endpoint):
        raise InputError(
            f"{endpoint!r} is no URL of a collector",
            where=OPTION,
            remedy=f"give one that takes OTLP over HTTP, e.g. http://127.0.0.1:4318{_PATH}; gRPC (4317) is not spoken",
        )
    return parts._replace(path=_PATH).geturl() if parts.path in ("", "/") else endpoint


def require_opentelemetry() -> Any:
    """The module that speaks to collectors.

    Raises:
        DependencyError: OpenTelemetry is not installed.
    """
    try:
        return importlib.import_module("chipwise.serve.observe.otlp")
    except ModuleNotFoundError as e:
        if e.name is None or e.name.startswith("chipwise"):
            raise
        raise DependencyError(
            f"traces need OpenTelemetry, which is not installed (no module {e.name})",
            where=OPTION,
            remedy="pip install 'chipwise[otel]'",
        ) from e


def open_tracing(endpoint: str) -> Tracing:
    """Begin to send traces to a collector, whether it is there or not.

    Args:
        endpoint: Its URL, as for ``traces_url``.

    Raises:
        InputError: It is no such URL, or a variable of OpenTelemetry's has a wrong value.
        DependencyError: OpenTelemetry is not installed.
    """
    url = traces_url(endpoint)
    tracing: Tracing = require_opentelemetry().OtlpTracing(url)
    return tracing
