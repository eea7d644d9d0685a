"""OtlpTracing: traces as OpenTelemetry's spans, sent by its SDK. The one module that imports it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping

from opentelemetry.context import Context
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from chipwise import __version__
from chipwise.errors import InputError
from chipwise.serve.observe.otlp_exporter import CalmExporter
from chipwise.serve.observe.trace import Attribute, Part, Trace

# What the SDK says of a service that nobody named.
_UNNAMED = "unknown_service"
# How long the server's end waits for a collector.
_LAST_SEND_S = 3.0
_ABORT_S = 1.0

# They say for each request what is wrong with these headers, which is its client's matter: it gets a trace of its own.
_OF_HEADERS = ("opentelemetry.trace.propagation.tracecontext", "opentelemetry.trace.span")
_CONTEXT_HEADERS = ("traceparent", "tracestate")


class OtlpTracing:
    """Makes spans of traces that are over, and has them sent from a thread of the SDK's.

    What the SDK reads from the environment (OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_SAMPLER,
    OTEL_BSP_*, OTEL_EXPORTER_OTLP_HEADERS and so on) holds here too, but for the endpoint.

    Args:
        url: Where spans are sent to.
        clock: The server's clock, in seconds.

    Raises:
        InputError: A variable of the environment has a wrong value.
    """

    def __init__(self, url: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        try:
            self._exporter = CalmExporter(url)
            self._provider = TracerProvider(resource=_resource(), shutdown_on_exit=False)
            self._provider.add_span_processor(BatchSpanProcessor(self._exporter))
        except (ValueError, OSError) as e:
            raise InputError(f"OpenTelemetry cannot be set up ({e})", remedy="see the OTEL_ variables") from e
        self._tracer = self._provider.get_tracer("chipwise", __version__)
        self._propagator = TraceContextTextMapPropagator()
        for name in _OF_HEADERS:
            if (logger := logging.getLogger(name)).level == logging.NOTSET:
                logger.setLevel(logging.ERROR)

    def begin(self, operation: str, headers: Mapping[str, str]) -> Trace:
        """A request came."""
        kept = {name: headers[name] for name in _CONTEXT_HEADERS if name in headers}
        return Trace(operation, kept, self._clock, self._clock(), self._tell)

    def close(self) -> None:
        """Send what is left, within a few seconds: a collector that is down keeps no server from ending."""
        # The SDK waits for half a minute.
        last = threading.Thread(target=self._provider.shutdown, name="chipwise-last-traces", daemon=True)
        last.start()
        last.join(_LAST_SEND_S)
        if last.is_alive():
            self._exporter.abort()
            last.join(_ABORT_S)

    def _tell(self, trace: Trace) -> None:
        """Make a request's spans. They are sent later, by another thread."""
        ended_s = trace.started_s if trace.ended_s is None else trace.ended_s
        # One offset for all of a request's times: they nest, whatever is done to the wall clock meanwhile.
        now_s, now_ns = self._clock(), time.time_ns()

        def at(time_s: float) -> int:
            return now_ns + round((time_s - now_s) * 1e9)

        name = trace.operation if trace.model is None else f"{trace.operation} {trace.model}"
        parent = self._propagator.extract(trace.headers, Context())
        begun_ns, about = at(trace.started_s), _attributes(trace)
        span = self._tracer.start_span(name, parent, SpanKind.SERVER, about, start_time=begun_ns)
        if span.is_recording():
            for note in trace.notes:
                span.add_event(note.name, dict(note.attributes), at(note.at_s))
            if trace.fault is not None:
                span.set_status(StatusCode.ERROR, trace.fault)
            inside = set_span_in_context(span, Context())
            for part in trace.parts:
                for stage, begin_s, end_s in _stages(trace, part):
                    attributes = {"chipwise.choice": part.choice}
                    child = self._tracer.start_span(stage, inside, attributes=attributes, start_time=at(begin_s))
                    child.end(at(end_s))
        span.end(at(ended_s))


def _stages(trace: Trace, part: Part) -> Iterator[tuple[str, float, float]]:
    """What a choice went through, one after the other, as far as it got."""
    marks = (("queue", trace.queued_s), ("prefill", part.started_s), ("decode", part.first_token_s))
    reached = [(name, begin_s) for name, begin_s in marks if begin_s is not None]
    for (name, begin_s), end_s in zip(reached, [*(begin_s for _, begin_s in reached[1:]), part.ended_s], strict=True):
        yield name, begin_s, end_s


def _attributes(trace: Trace) -> dict[str, Attribute]:
    attributes: dict[str, Attribute] = {
        "gen_ai.operation.name": trace.operation,
        "gen_ai.provider.name": "chipwise",
    }
    if trace.model is not None:
        attributes["gen_ai.request.model"] = attributes["gen_ai.response.model"] = trace.model
    attributes.update(trace.attributes)
    if trace.error is not None:
        attributes["error.type"] = trace.error
    if trace.parts:
        parts = sorted(trace.parts, key=lambda part: part.choice)
        # The prompt is the same for all choices; the first one computes it.
        attributes["gen_ai.usage.input_tokens"] = parts[0].prompt_tokens
        attributes["gen_ai.usage.cache_read.input_tokens"] = parts[0].cached_tokens
        attributes["gen_ai.usage.output_tokens"] = sum(part.output_tokens for part in parts)
        attributes["gen_ai.response.finish_reasons"] = [trace.reasons.get(part.choice, part.outcome) for part in parts]
    return attributes


def _resource() -> Resource:
    """The server, as the environment names it."""
    said = Resource.create()
    named = not str(said.attributes[SERVICE_NAME]).startswith(_UNNAMED)
    own = Resource({} if named else {SERVICE_NAME: "chipwise"})
    return Resource({SERVICE_VERSION: __version__}).merge(said).merge(own)
