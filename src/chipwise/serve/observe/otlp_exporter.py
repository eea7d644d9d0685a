"""CalmExporter: sends spans, and says in one line when that begins to fail and in one when it works again."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http import trace_exporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

# Says for each span that it is dropped as long as no collector takes them.
_DROPS = "opentelemetry.sdk._shared_internal"
_MAX_REASON_CHARS = 300

_logger = logging.getLogger(__name__)


class _Kept(logging.Filter):
    """Keeps the first line of each attempt instead of letting it be shown."""

    line = ""

    def filter(self, record: logging.LogRecord) -> bool:
        self.line = self.line or record.getMessage()
        return False


class CalmExporter(SpanExporter):
    """OpenTelemetry's exporter over HTTP, which tells of each failed attempt, with the log kept short.

    Args:
        url: Where spans are sent to.
    """

    def __init__(self, url: str) -> None:
        self._inner = OTLPSpanExporter(endpoint=url)
        parts = urlsplit(url)
        # A password in it is for nobody's log.
        self._place = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        self._said = _Kept()
        logging.getLogger(trace_exporter.__name__).addFilter(self._said)
        drops = logging.getLogger(_DROPS)
        if drops.level == logging.NOTSET:
            drops.setLevel(logging.ERROR)
        self._down = False
        self._lost = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans; called from the SDK's thread."""
        self._said.line = ""
        result = self._inner.export(spans)
        if result is SpanExportResult.SUCCESS:
            if self._down:
                _logger.warning("traces are taken again at %s; at least %d spans were lost", self._place, self._lost)
            self._down, self._lost = False, 0
            return result
        self._lost += len(spans)
        if not self._down:
            reason = self._said.line[:_MAX_REASON_CHARS]
            _logger.warning("no traces are taken at %s: they are lost, serving goes on (%s)", self._place, reason)
        self._down = True
        return result

    def abort(self) -> None:
        """Give up what is being sent."""
        self._inner.shutdown()  # type: ignore[no-untyped-call]

    def shutdown(self) -> None:
        """Send no more."""
        self._inner.shutdown()  # type: ignore[no-untyped-call]
        logging.getLogger(trace_exporter.__name__).removeFilter(self._said)
