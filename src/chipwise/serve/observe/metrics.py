"""Metrics: what the server counts and times, in Prometheus' terms."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from chipwise.errors import Shortage
from chipwise.serve.faults.logits_check import NumericFault

Outcome = Literal["stop", "length", "cancelled", "expired", "error", "rejected", "invalid"]

Rejection = Literal[Shortage, "unavailable"]
"""Why a request was not taken: what there was too little of, or that nothing was there to answer it."""

FaultKind = Literal[NumericFault, "engine"]
"""What went wrong in a step: a kind of nonsense in its logits, or an error of the engine."""

_FAULTS: tuple[FaultKind, ...] = (*get_args(NumericFault), "engine")
_REJECTIONS: tuple[Rejection, ...] = (*get_args(Shortage), "unavailable")
_OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
# From a fast desktop's step to a prompt of minutes on a small board.
_STEP_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_TTFT_BUCKETS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_ROW_BUCKETS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)


class _Tally(Collector):
    """A counter that somebody else keeps."""

    def __init__(self, name: str, text: str, read: Callable[[], float]) -> None:
        self._name, self._text, self._read = name, text, read

    def collect(self) -> Iterable[Metric]:
        yield CounterMetricFamily(self._name, self._text, value=self._read())


class Metrics:
    """The server's metrics, in a registry of their own so that several servers fit one process."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        requests = Counter(
            "chipwise_requests", "Requests that are over, by how they ended.", ["outcome"], registry=self._registry
        )
        self._outcomes = {outcome: requests.labels(outcome) for outcome in _OUTCOMES}
        rejections = Counter(
            "chipwise_rejections", "Requests that were not taken, by reason.", ["reason"], registry=self._registry
        )
        self._rejections = {reason: rejections.labels(reason) for reason in _REJECTIONS}
        faults = Counter("chipwise_faults", "Faults of an engine, by kind.", ["kind"], registry=self._registry)
        self._faults = {kind: faults.labels(kind) for kind in _FAULTS}
        self._prompt_tokens = self._counter("chipwise_prompt_tokens", "Prompt tokens fed to the model.")
        self._generated_tokens = self._counter("chipwise_generated_tokens", "Tokens the model generated.")
        self._ttft = self._histogram(
            "chipwise_time_to_first_token_seconds", "From a request's arrival to its first token.", _TTFT_BUCKETS_S
        )
        self._inter_token = self._histogram(
            "chipwise_inter_token_seconds", "Between two tokens of one request.", _STEP_BUCKETS_S
        )
        step = Histogram(
            "chipwise_step_seconds",
            "Duration of a step of the model.",
            ["kind"],
            buckets=_STEP_BUCKETS_S,
            registry=self._registry,
        )
        self._steps = {kind: step.labels(kind) for kind in ("prefill", "decode")}
        self._rows = self._histogram("chipwise_batch_size_rows", "Requests that share a decode step.", _ROW_BUCKETS)

    def watch(self, name: str, text: str, read: Callable[[], float]) -> None:
        """Add a gauge that is read when the metrics are asked for."""
        Gauge(name, text, registry=self._registry).set_function(read)

    def tally(self, name: str, text: str, read: Callable[[], float]) -> None:
        """Add a counter, ``name`` and ``_total``, that is read when the metrics are asked for."""
        self._registry.register(_Tally(name, text, read))

    def collect(self, collector: Collector) -> None:
        """Add metrics that a collector makes when they are asked for."""
        self._registry.register(collector)

    def value(self, name: str, **labels: str) -> float:
        """A sample by its full name, 0 if there is none."""
        return self._registry.get_sample_value(name, labels) or 0.0

    def outcomes(self) -> dict[Outcome, float]:
        """Requests that are over, by how they ended."""
        return {outcome: self.value("chipwise_requests_total", outcome=outcome) for outcome in _OUTCOMES}

    def faulted(self, kind: FaultKind) -> None:
        """A step failed, or gave logits that are none."""
        self._faults[kind].inc()

    def over(self, outcome: Outcome) -> None:
        """A request is over."""
        self._outcomes[outcome].inc()

    def rejected(self, reason: Rejection) -> None:
        """A request to any model was not taken."""
        self._rejections[reason].inc()

    def prefilled(self, tokens: int, duration_s: float) -> None:
        """A prefill step ran."""
        self._prompt_tokens.inc(tokens)
        self._steps["prefill"].observe(duration_s)

    def decoded(self, rows: int, duration_s: float) -> None:
        """A decode step ran."""
        self._steps["decode"].observe(duration_s)
        self._rows.observe(rows)

    def first_token(self, since_arrival_s: float) -> None:
        """A request got its first token."""
        self._generated_tokens.inc()
        self._ttft.observe(since_arrival_s)

    def next_token(self, since_last_s: float) -> None:
        """A request got a further token."""
        self._generated_tokens.inc()
        self._inter_token.observe(since_last_s)

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self._registry)

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(name, text, registry=self._registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, text, buckets=buckets, registry=self._registry)
