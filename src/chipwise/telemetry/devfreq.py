"""DevfreqMeter: the clock of an NPU or GPU, which any user may read."""

from __future__ import annotations

import re
from dataclasses import dataclass

from chipwise.telemetry.meter import Texts
from chipwise.telemetry.numbers import parse_integer, parse_integers, shortened
from chipwise.telemetry.reading import Reading, unknown
from chipwise.telemetry.tree import Tree

FOLDER = "sys/class/devfreq"
_KINDS = ("npu", "gpu")
_LOAD = re.compile(r"(\d{1,9})@(\d{1,12})(?:Hz)?")
# Under it ``load`` stays at 100, whatever the NPU does.
_NO_LOAD = "rknpu_ondemand"


@dataclass(frozen=True)
class DevfreqLoad:
    """A device's load and the clock it was seen at, as its ``load`` file says them.

    Attributes:
        percent: The load; no utilisation under the governor rknpu_ondemand, where it stays at 100.
        clock_hz: The clock.
    """

    percent: int
    clock_hz: int


def parse_load(text: str) -> DevfreqLoad | None:
    """Read ``100@1000000000Hz``; None if the text is something else."""
    match = _LOAD.fullmatch(text)
    return DevfreqLoad(int(match[1]), int(match[2])) if match else None


@dataclass(frozen=True)
class DevfreqMeter:
    """One device.

    Attributes:
        device: Its folder's name, e.g. ``fdab0000.npu``.
        kind: ``npu`` or ``gpu``.
        clocks_hz: The clocks it lists, upwards; empty if it lists none.
        tells_load: Whether its ``load`` is one.
    """

    device: str
    kind: str
    clocks_hz: tuple[int, ...]
    tells_load: bool

    @property
    def paths(self) -> tuple[str, ...]:
        """The clock, and the load where it is one."""
        base = f"{FOLDER}/{self.device}"
        return (f"{base}/cur_freq", f"{base}/load") if self.tells_load else (f"{base}/cur_freq",)

    def readings(self, texts: Texts) -> list[Reading]:
        """The clock, its ratio to the highest, and the load."""
        path, *loads = self.paths
        text = texts[path]
        hz = None if text.content is None else parse_integer(text.content)
        names = (f"clock_hz/{self.kind}", f"clock_ratio/{self.kind}")
        if hz is None or hz <= 0:
            # A device that sleeps may read 0: its clock is stopped, or not known to the driver.
            why = text.why or f"{shortened(text.content or '')} is no clock"
            return [unknown(names[0], "Hz", path, why), unknown(names[1], "1", path, why)]
        clock = Reading(names[0], hz, "Hz", path)
        if not self.clocks_hz:
            why = f"{FOLDER}/{self.device}/available_frequencies lists none"
            return [clock, unknown(names[1], "1", path, why), *(self._load(texts, p) for p in loads)]
        ratio = Reading(names[1], min(1.0, hz / self.clocks_hz[-1]), "1", path)
        return [clock, ratio, *(self._load(texts, p) for p in loads)]

    def _load(self, texts: Texts, path: str) -> Reading:
        name, text = f"{self.kind}_load", texts[path]
        load = None if text.content is None else parse_load(text.content)
        if load is None:
            why = text.why or f"{shortened(text.content or '')} is no load"
            return unknown(name, "1", path, why)
        note = f"the driver says {load.percent} %, counted as 100" if load.percent > 100 else ""
        return Reading(name, min(load.percent, 100) / 100, "1", path, note=note)


def find(tree: Tree) -> list[DevfreqMeter]:
    """The NPU and the GPU among the devices, by the ends of their names; the first of each kind."""
    first: dict[str, str] = {}
    for device in tree.names(FOLDER):
        kind = device.rpartition(".")[2]
        if kind in _KINDS:
            first.setdefault(kind, device)
    return [_meter(tree, device, kind) for kind, device in first.items()]


def _meter(tree: Tree, device: str, kind: str) -> DevfreqMeter:
    base = f"{FOLDER}/{device}"
    steps, governor, load = f"{base}/available_frequencies", f"{base}/governor", f"{base}/load"
    texts = tree.read([steps, governor, load])
    clocks = sorted({hz for hz in parse_integers(texts[steps].content or "") if hz > 0})
    tells_load = texts[load].content is not None and texts[governor].content not in (None, _NO_LOAD)
    return DevfreqMeter(device, kind, tuple(clocks), tells_load)
