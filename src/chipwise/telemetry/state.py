"""HardwareState: a board at one moment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

from chipwise.telemetry.reading import Reading, unknown

# What a board's state is made of: field, unit, and the readings that can tell it beside the one of its own name.
_UNITS = {
    "temp_c": "C",
    "passive_c": "C",
    "critical_c": "C",
    "power_w": "W",
    "free_bytes": "B",
    "total_bytes": "B",
    "clock_ratio": "1",
    "npu_load": "1",
    "gpu_load": "1",
    "cpu_pressure": "1",
    "memory_pressure": "1",
    "throttled": "1",
}
_ALSO = {"clock_ratio": ("clock_ratio/npu", "clock_ratio/gpu")}
_NOBODY = "nothing on this board tells it"


@dataclass(frozen=True)
class HardwareState:
    """What is known of a board at one moment, each value with its source or why it is unknown.

    Attributes:
        at_s: When it was read, on the reader's clock.
        temp_c: The hottest of the chip's sensors.
        passive_c: Where the kernel begins to throttle: the lowest passive trip.
        critical_c: Where it shuts down: the lowest critical trip.
        power_w: What the whole board draws.
        free_bytes: Memory that programs can still take.
        total_bytes: All memory.
        clock_ratio: Clock of the NPU, else the GPU, over its highest.
        npu_load: Load of the NPU, the mean over its cores, 0 to 1.
        gpu_load: Load of the GPU, 0 to 1.
        cpu_pressure: Share of the last 10 seconds in which a program waited for a core.
        memory_pressure: The same for memory.
        throttled: 1 if the firmware says that it throttles now.
        details: Every reading there is: zones, cores, rails, clusters.
    """

    at_s: float
    temp_c: Reading
    passive_c: Reading
    critical_c: Reading
    power_w: Reading
    free_bytes: Reading
    total_bytes: Reading
    clock_ratio: Reading
    npu_load: Reading
    gpu_load: Reading
    cpu_pressure: Reading
    memory_pressure: Reading
    throttled: Reading
    details: tuple[Reading, ...] = ()

    @property
    def summary(self) -> tuple[Reading, ...]:
        """The values of the whole board, in the order of the fields."""
        return tuple(getattr(self, field.name) for field in fields(self) if field.name in _UNITS)


def compose(at_s: float, readings: Iterable[Reading]) -> HardwareState:
    """A state from what all meters read; of several that tell the same, the first that knows it counts."""
    by_name: dict[str, list[Reading]] = {}
    for reading in readings:
        by_name.setdefault(reading.name, []).append(reading)
    chosen = {name: _choose(name, unit, by_name) for name, unit in _UNITS.items()}
    details = tuple(reading for name, found in by_name.items() if name not in _UNITS for reading in found[:1])
    return HardwareState(at_s, **chosen, details=details)


def _choose(name: str, unit: str, by_name: dict[str, list[Reading]]) -> Reading:
    found = [reading for key in (name, *_ALSO.get(name, ())) for reading in by_name.get(key, ())]
    known = next((reading for reading in found if reading.value is not None), None)
    if known is not None:
        return Reading(name, known.value, unit, known.source, note=known.note)
    if not found:
        return unknown(name, unit, "", _NOBODY)
    return unknown(name, unit, found[0].source, "; ".join(dict.fromkeys(reading.unknown for reading in found)))
