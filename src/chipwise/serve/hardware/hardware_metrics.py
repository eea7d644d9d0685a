"""HardwareCollector: a board's state in Prometheus' terms. What is unknown has no sample."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from chipwise.serve.hardware.hardware import Hardware
from chipwise.telemetry import Reading

# First part of a reading's name -> the metric, its text, and the label of the second part. A value of the whole board
# has the label empty.
_GAUGES = {
    "temp_c": ("chipwise_board_temperature_celsius", "Temperature; of the whole board the hottest sensor.", "zone"),
    "power_w": ("chipwise_board_power_watts", "Power; of the whole board what it draws.", "rail"),
    "clock_hz": ("chipwise_board_clock_hertz", "Clock.", "unit"),
    "clock_ratio": ("chipwise_board_clock_ratio", "Clock over the highest; of the board the accelerator's.", "unit"),
    "npu_load": ("chipwise_board_npu_load_ratio", "Load of the NPU; of the whole the mean over its cores.", "core"),
    "gpu_load": ("chipwise_board_gpu_load_ratio", "Load of the GPU.", "core"),
    "free_bytes": ("chipwise_board_memory_free_bytes", "Memory that programs can still take.", ""),
    "total_bytes": ("chipwise_board_memory_bytes", "All memory.", ""),
    "cpu_pressure": ("chipwise_board_cpu_pressure_ratio", "Time in which a program waited for a core.", ""),
    "memory_pressure": ("chipwise_board_memory_pressure_ratio", "Time in which a program waited for memory.", ""),
    "passive_c": ("chipwise_board_passive_trip_celsius", "Where the kernel throttles.", ""),
    "critical_c": ("chipwise_board_critical_trip_celsius", "Where the kernel switches off.", ""),
    "throttled": ("chipwise_board_throttled", "Whether the firmware throttles.", ""),
}


class HardwareCollector(Collector):
    """Reads the latest state when metrics are asked for; one that is stale is not shown."""

    def __init__(self, hardware: Hardware) -> None:
        self._hardware = hardware

    def collect(self) -> Iterable[Metric]:
        """The board, then its policy."""
        hardware = self._hardware
        yield GaugeMetricFamily("chipwise_board_age_seconds", "Age of the board's state.", hardware.age_s)
        if not hardware.stale:
            state = hardware.state
            yield from _families((*state.summary, *state.details))
        decision = hardware.decision
        if decision is not None:
            yield GaugeMetricFamily(
                "chipwise_policy_level", "Rung of the heat and power policy, 0 for none.", decision.level
            )
            yield CounterMetricFamily("chipwise_policy_changes", "Changes of that rung.", hardware.changes)


def _families(readings: Iterable[Reading]) -> Iterable[Metric]:
    by_first: dict[str, dict[str, float]] = {}
    for reading in readings:
        first, _, second = reading.name.partition("/")
        if reading.value is not None and first in _GAUGES:
            by_first.setdefault(first, {}).setdefault(second, reading.value)
    for first, values in by_first.items():
        name, text, label = _GAUGES[first]
        family = GaugeMetricFamily(name, text, labels=[label] if label else [])
        for second, value in values.items():
            family.add_metric([second] if label else [], value)
        yield family
