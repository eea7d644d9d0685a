"""Workload: what a model at work has to do and has done, and how the metrics show it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector


@dataclass(frozen=True)
class Workload:
    """What a model at work has to do and has done. None is of what it does not have.

    Attributes:
        waiting: Requests that wait for a slot.
        running: Requests that run.
        parked: Requests whose slot waits.
        slots: Requests that may run at once.
        kv_tokens: Tokens in the slots held.
        reused: Tokens whose KV was there already, since the start; so are the next four.
        parkings: Requests that gave way and kept their KV.
        evictions: Requests that gave way and lost it.
        speculated: Tokens that were guessed and checked.
        accepted: Guessed tokens that were right.
        up: Whether the engine's process answers.
        restarts: Processes that took the place of a lost one, since the start.
        fallbacks: Requests that the fallback took, since the start.
        fallback_running: Requests that run there.
        breaker: Number of the breaker's state: 0 closed, 1 half open, 2 open.
    """

    waiting: int = 0
    running: int = 0
    parked: int = 0
    slots: int = 0
    kv_tokens: int = 0
    reused: int = 0
    parkings: int = 0
    evictions: int = 0
    speculated: int | None = None
    accepted: int | None = None
    up: bool | None = None
    restarts: int | None = None
    fallbacks: int | None = None
    fallback_running: int | None = None
    breaker: int | None = None

    def beside(self, other: Workload) -> Workload:
        """This one, with the requests and counts of another model that gives way to it, or has done so."""
        return replace(
            self,
            waiting=self.waiting + other.waiting,
            running=self.running + other.running,
            parked=self.parked + other.parked,
            kv_tokens=self.kv_tokens + other.kv_tokens,
            reused=self.reused + other.reused,
            parkings=self.parkings + other.parkings,
            evictions=self.evictions + other.evictions,
            speculated=_sum(self.speculated, other.speculated),
            accepted=_sum(self.accepted, other.accepted),
            restarts=_sum(self.restarts, other.restarts),
            fallbacks=_sum(self.fallbacks, other.fallbacks),
            fallback_running=_sum(self.fallback_running, other.fallback_running),
        )


_GAUGES = {
    "waiting": ("chipwise_queue_depth_requests", "Requests that wait for a slot."),
    "running": ("chipwise_running_requests", "Requests that run."),
    "parked": ("chipwise_parked_requests", "Requests whose slot waits."),
    "slots": ("chipwise_slots", "Requests that may run at once."),
    "kv_tokens": ("chipwise_kv_used_tokens", "Tokens in the KV slots held."),
    "up": ("chipwise_engine_up", "Whether the engine's process answers."),
    "fallback_running": ("chipwise_fallback_running_requests", "Requests that run in the fallback."),
    "breaker": ("chipwise_breaker_state", "0 closed, 1 half open, 2 open."),
}
_COUNTERS = {
    "reused": ("chipwise_reused_tokens", "Tokens whose KV was there already."),
    "parkings": ("chipwise_parkings", "Requests that gave way and kept their KV."),
    "evictions": ("chipwise_evictions", "Requests that gave way and lost it."),
    "speculated": ("chipwise_speculated_tokens", "Tokens that were guessed and checked."),
    "accepted": ("chipwise_accepted_tokens", "Guessed tokens that were right."),
    "restarts": ("chipwise_engine_restarts", "Processes that took the place of a lost one."),
    "fallbacks": ("chipwise_fallbacks", "Requests that the fallback took."),
}


class WorkloadCollector(Collector):
    """Shows a workload that is read when the metrics are asked for."""

    def __init__(self, read: Callable[[], Workload]) -> None:
        self._read = read

    def collect(self) -> Iterable[Metric]:
        """What there is of it."""
        workload = self._read()
        for field, (name, text) in _GAUGES.items():
            if (value := getattr(workload, field)) is not None:
                yield GaugeMetricFamily(name, text, float(value))
        for field, (name, text) in _COUNTERS.items():
            if (value := getattr(workload, field)) is not None:
                yield CounterMetricFamily(name, text, value=float(value))


def _sum(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else one + other
