"""RknpuMeter: the load of Rockchip's NPU, as its kernel driver tells in debugfs or procfs."""

from __future__ import annotations

import re
from dataclasses import dataclass

from chipwise.telemetry.meter import Texts
from chipwise.telemetry.numbers import parse_integer, shortened
from chipwise.telemetry.reading import Reading, unknown
from chipwise.telemetry.tree import Tree

# debugfs is root's alone; procfs only where the kernel was built with it.
_FOLDERS = ("proc/rknpu", "sys/kernel/debug/rknpu")
_LOAD = re.compile(r"NPU load:((?:\s*Core\d+:\s*\d{1,9}%\s*,?)+|\s*\d{1,9}%)\s*")
_PERCENT = re.compile(r"(\d+)%")
_VERSION = re.compile(r"RKNPU driver: v(\d+(?:\.\d+)*)")
_WHY_NONE = "no rknpu driver found; the mainline driver rocket tells no load"


def parse_load(text: str) -> tuple[int, ...] | None:
    """The percent a core of ``NPU load:  Core0: 63%, Core1: 65%, Core2: 64%,`` or, with one core, ``NPU load:  0%``.

    Above 100 where an older driver does not clamp; None if the text is something else.
    """
    match = _LOAD.fullmatch(text)
    return tuple(int(n) for n in _PERCENT.findall(match[1])) if match else None


def parse_version(text: str) -> str | None:
    """The version in ``RKNPU driver: v0.9.8``; None if the text is something else."""
    match = _VERSION.fullmatch(text)
    return match[1] if match else None


def parse_power(text: str) -> bool | None:
    """Whether the NPU has power: ``on`` or ``off``; None if the text is something else."""
    return {"on": True, "off": False}.get(text)


@dataclass(frozen=True)
class RknpuMeter:
    """The driver's files in one folder."""

    folder: str

    @property
    def paths(self) -> tuple[str, ...]:
        """Load and clock."""
        return (f"{self.folder}/load", f"{self.folder}/freq")

    def readings(self, texts: Texts) -> list[Reading]:
        """The mean load over cores, 0 to 1, each core's, and the NPU's clock."""
        load, freq = self.paths
        return [*_loads(texts, load), _clock(texts, freq)]


def find(tree: Tree) -> list[RknpuMeter]:
    """The NPU's driver, if it is there: the folder whose load can be read, else the one that says why not."""
    loads = tree.read(f"{folder}/load" for folder in _FOLDERS)
    readable = [f for f in _FOLDERS if loads[f"{f}/load"].content]
    there = [f for f in _FOLDERS if loads[f"{f}/load"].why != "not there"]
    return [RknpuMeter(folder) for folder in (*readable, *there)[:1]]


def missing() -> Reading:
    """The load of a board without the driver."""
    return unknown("npu_load", "1", _FOLDERS[1], _WHY_NONE)


def _loads(texts: Texts, path: str) -> list[Reading]:
    text = texts[path]
    if text.content is None:
        return [unknown("npu_load", "1", path, text.why)]
    percents = parse_load(text.content)
    if percents is None:
        return [unknown("npu_load", "1", path, f"{shortened(text.content)} is no load of an NPU")]
    cores = [_core(f"npu_load/core{n}", percent, path) for n, percent in enumerate(percents)]
    over = max(percents)
    note = f"the driver says {over} %, counted as 100" if over > 100 else ""
    mean = sum(min(percent, 100) for percent in percents) / (100 * len(percents))
    return [Reading("npu_load", mean, "1", path, note=note), *(cores if len(cores) > 1 else [])]


def _core(name: str, percent: int, path: str) -> Reading:
    note = f"the driver says {percent} %, counted as 100" if percent > 100 else ""
    return Reading(name, min(percent, 100) / 100, "1", path, note=note)


def _clock(texts: Texts, path: str) -> Reading:
    text = texts[path]
    hz = None if text.content is None else parse_integer(text.content)
    if hz is None or hz <= 0:
        return unknown("clock_hz/rknpu", "Hz", path, text.why or f"{shortened(text.content or '')} is no clock")
    return Reading("clock_hz/rknpu", hz, "Hz", path)
