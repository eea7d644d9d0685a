"""BoardMeters: all meters that a board offers, found once and read together."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from chipwise.telemetry import (
    cpufreq,
    devfreq,
    hwmon,
    meminfo,
    pressure,
    rknpu,
    tegrastats,
    thermal,
    vcgencmd,
)
from chipwise.telemetry.meter import Meter
from chipwise.telemetry.reading import Reading
from chipwise.telemetry.state import HardwareState, compose
from chipwise.telemetry.tree import Tree

# In the order in which they are believed where several tell the same.
_FINDERS: tuple[Callable[[Tree], Sequence[Meter]], ...] = (
    thermal.find,
    meminfo.find,
    tegrastats.find,
    vcgencmd.find,
    hwmon.find,
    rknpu.find,
    devfreq.find,
    cpufreq.find,
    pressure.find,
)
_MISSING = (thermal.missing, rknpu.missing)


class BoardMeters:
    """The meters of one board. For one thread at a time."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._meters: tuple[Meter, ...] = ()
        self._paths: tuple[str, ...] = ()
        self.find()

    def find(self) -> None:
        """Look for meters again: sensors come with drivers, and go."""
        self._meters = tuple(meter for finder in _FINDERS for meter in finder(self._tree))
        self._paths = tuple(dict.fromkeys(path for meter in self._meters for path in meter.paths))

    def read(self, at_s: float) -> HardwareState:
        """The board's state now.

        Args:
            at_s: The time, on the caller's clock.
        """
        texts = self._tree.read(self._paths)
        readings: list[Reading] = [reading for meter in self._meters for reading in meter.readings(texts)]
        names = {reading.name for reading in readings}
        readings += [reading for missing in _MISSING if (reading := missing()).name not in names]
        return compose(at_s, readings)
