"""JobMetrics: what is counted and timed of the pipelines of a server."""

from __future__ import annotations

from typing import Literal, get_args

from prometheus_client import Counter, Histogram

from chipwise.serve.observe.metrics import Metrics

JobEnd = Literal["done", "cancelled", "expired", "error", "rejected", "invalid"]

_ENDS: tuple[JobEnd, ...] = get_args(JobEnd)
_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class JobMetrics:
    """Requests to models that answer in one run, by the kind of their route.

    Args:
        metrics: The server's metrics.
        kinds: The routes' kinds.
    """

    def __init__(self, metrics: Metrics, kinds: tuple[str, ...]) -> None:
        ends = Counter(
            "chipwise_jobs", "Requests answered in one run that are over.", ["kind", "outcome"], registry=None
        )
        times = Histogram(
            "chipwise_job_seconds", "From such a request to its answer.", ["kind"], buckets=_BUCKETS_S, registry=None
        )
        metrics.collect(ends)
        metrics.collect(times)
        self._ends = {(kind, end): ends.labels(kind, end) for kind in kinds for end in _ENDS}
        self._times = {kind: times.labels(kind) for kind in kinds}

    def over(self, kind: str, end: JobEnd) -> None:
        """A request is over."""
        self._ends[kind, end].inc()

    def took(self, kind: str, duration_s: float) -> None:
        """A request was answered."""
        self._times[kind].observe(duration_s)
