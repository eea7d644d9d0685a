from __future__ import annotations

from chipwise.serve.observe.metrics import Metrics
from chipwise.serve.observe.workload import Workload, WorkloadCollector


def test_requests_and_counts_add_up_and_the_rest_is_of_the_first() -> None:
    new = Workload(waiting=1, running=2, slots=4, reused=10, up=True, restarts=0)
    old = Workload(waiting=3, running=1, slots=9, kv_tokens=7, reused=5, speculated=6, accepted=2, up=False, restarts=2)
    both = new.beside(old)
    assert (both.waiting, both.running, both.kv_tokens, both.reused) == (4, 3, 7, 15)
    assert (both.slots, both.up) == (4, True)
    assert (both.speculated, both.accepted, both.restarts) == (6, 2, 2)
    assert both.fallbacks is None


def test_what_there_is_not_has_no_sample() -> None:
    metrics = Metrics()
    metrics.collect(WorkloadCollector(lambda: Workload(running=2, up=False, speculated=3)))
    assert metrics.value("chipwise_running_requests") == 2
    text = metrics.text().decode()
    assert "chipwise_engine_up 0.0\n" in text
    assert "chipwise_speculated_tokens_total 3.0\n" in text
    assert "chipwise_breaker_state" not in text
    assert "chipwise_accepted" not in text
