"""TegrastatsMeter: the line that NVIDIA's `tegrastats` prints on a Jetson."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from chipwise.telemetry.files import COMMANDS
from chipwise.telemetry.meter import Texts
from chipwise.telemetry.numbers import shortened
from chipwise.telemetry.reading import Reading, unknown
from chipwise.telemetry.thermal import plausible
from chipwise.telemetry.tree import Tree

PATH = f"{COMMANDS}/tegrastats.txt"
"""Where a recording has what it printed; of several lines the last counts."""

_INPUT_RAIL = "VDD_IN"
# Digits are bounded: a garbled line must not become a number of a thousand digits.
_RAM = re.compile(r"\bRAM (\d{1,9})/(\d{1,9})MB")
_CPU = re.compile(r"\bCPU \[([^\]]*)\]")
_CORE = re.compile(r"(\d{1,3})%@(\d{1,6})")
_GPU = re.compile(r"\bGR3D_FREQ (\d{1,3})%(?:@\[?(\d{1,6})(?:,\d{1,6})*\]?)?")
_EMC = re.compile(r"\bEMC_FREQ (\d{1,3})%(?:@(\d{1,6}))?")
_TEMP = re.compile(r"(?<!\S)([A-Za-z][A-Za-z0-9_]{0,31})@(-?\d{1,4}(?:\.\d{1,4})?)C(?!\S)")
_RAIL = re.compile(r"(?<!\S)([A-Z][A-Z0-9_]{1,31}) (\d{1,9})mW/(\d{1,9})mW")


@dataclass(frozen=True)
class Tegrastats:
    """One line. What the line does not have is None or missing: fields vary by board and release.

    Attributes:
        used_bytes: Main memory in use.
        total_bytes: Main memory.
        cpu_load: Each core's load, 0 to 1; None for a core that is off.
        cpu_hz: Each core's clock; None for a core that is off.
        gpu_load: Load of the GPU, 0 to 1.
        gpu_hz: Its clock.
        memory_load: Load of the memory controller, 0 to 1.
        temps_c: Temperatures by zone; None where the zone is switched off.
        rails_w: Power by rail, now.
    """

    used_bytes: int | None = None
    total_bytes: int | None = None
    cpu_load: tuple[float | None, ...] = ()
    cpu_hz: tuple[float | None, ...] = ()
    gpu_load: float | None = None
    gpu_hz: float | None = None
    memory_load: float | None = None
    temps_c: Mapping[str, float | None] = field(default_factory=dict)
    rails_w: Mapping[str, float] = field(default_factory=dict)


def parse_line(line: str) -> Tegrastats | None:
    """Read one line; None if nothing in it is of the form."""
    ram, cpu, gpu, emc = (pattern.search(line) for pattern in (_RAM, _CPU, _GPU, _EMC))
    cores = [_CORE.fullmatch(core.strip()) for core in cpu[1].split(",")] if cpu else []
    found = Tegrastats(
        used_bytes=int(ram[1]) << 20 if ram else None,
        total_bytes=int(ram[2]) << 20 if ram else None,
        cpu_load=tuple(_ratio(core[1]) if core else None for core in cores),
        cpu_hz=tuple(int(core[2]) * 1e6 if core else None for core in cores),
        gpu_load=_ratio(gpu[1]) if gpu else None,
        gpu_hz=int(gpu[2]) * 1e6 if gpu and gpu[2] else None,
        memory_load=_ratio(emc[1]) if emc else None,
        temps_c={name: plausible(float(value)) for name, value in _TEMP.findall(line)},
        rails_w={name: int(now) / 1000 for name, now, _ in _RAIL.findall(line)},
    )
    return found if found != Tegrastats() else None


def _ratio(percent: str) -> float:
    return min(int(percent), 100) / 100


@dataclass(frozen=True)
class TegrastatsMeter:
    """The latest line of the program."""

    @property
    def paths(self) -> tuple[str, ...]:
        """What the program printed."""
        return (PATH,)

    def readings(self, texts: Texts) -> list[Reading]:
        """Temperature, power, loads and free memory of the latest line."""
        text = texts[PATH]
        if text.content is None:
            return [unknown(name, unit, "tegrastats", text.why) for name, unit in (("temp_c", "C"), ("power_w", "W"))]
        line = text.content.splitlines()[-1]
        stats = parse_line(line)
        if stats is None:
            why = f"{shortened(line)} is no line of tegrastats"
            return [unknown(name, unit, "tegrastats", why) for name, unit in (("temp_c", "C"), ("power_w", "W"))]
        return [*_temperatures(stats), *_power(stats), *_loads(stats), *_memory(stats)]


def find(tree: Tree) -> list[TegrastatsMeter]:
    """The program's line, if there is one."""
    return [TegrastatsMeter()] if PATH.rpartition("/")[2] in tree.names(COMMANDS) else []


def _temperatures(stats: Tegrastats) -> list[Reading]:
    each = [
        unknown(f"temp_c/{name}", "C", "tegrastats", "the zone is switched off")
        if temp_c is None
        else Reading(f"temp_c/{name}", temp_c, "C", "tegrastats")
        for name, temp_c in stats.temps_c.items()
    ]
    known = {name: temp_c for name, temp_c in stats.temps_c.items() if temp_c is not None}
    if not known:
        return [unknown("temp_c", "C", "tegrastats", "the line has no temperature"), *each]
    hottest = max(known, key=lambda name: known[name])
    return [Reading("temp_c", known[hottest], "C", "tegrastats", note=f"the hottest, {hottest}"), *each]


def _power(stats: Tegrastats) -> list[Reading]:
    each = [Reading(f"power_w/{name}", watts, "W", "tegrastats") for name, watts in stats.rails_w.items()]
    if _INPUT_RAIL in stats.rails_w:
        return [Reading("power_w", stats.rails_w[_INPUT_RAIL], "W", "tegrastats", note=_INPUT_RAIL), *each]
    return [unknown("power_w", "W", "tegrastats", f"the line has no {_INPUT_RAIL}"), *each]


def _loads(stats: Tegrastats) -> list[Reading]:
    on = [load for load in stats.cpu_load if load is not None]
    found = {
        "gpu_load": (stats.gpu_load, "1"),
        "clock_hz/gpu": (stats.gpu_hz, "Hz"),
        "memory_load": (stats.memory_load, "1"),
        "cpu_load": (sum(on) / len(on) if on else None, "1"),
    }
    return [
        unknown(name, unit, "tegrastats", "the line does not have it")
        if value is None
        else Reading(name, value, unit, "tegrastats")
        for name, (value, unit) in found.items()
    ]


def _memory(stats: Tegrastats) -> list[Reading]:
    if stats.used_bytes is None or stats.total_bytes is None:
        return []
    free = max(0, stats.total_bytes - stats.used_bytes)
    return [
        Reading("free_bytes", free, "B", "tegrastats", note="total less used"),
        Reading("total_bytes", stats.total_bytes, "B", "tegrastats"),
    ]
