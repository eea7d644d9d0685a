"""ThermalMeter: the zones of the kernel's thermal framework, told apart by type, never by number."""

from __future__ import annotations

import re
from dataclasses import dataclass

from chipwise.telemetry.meter import Texts
from chipwise.telemetry.numbers import parse_integer, shortened
from chipwise.telemetry.reading import Reading, unknown
from chipwise.telemetry.tree import Tree

FOLDER = "sys/class/thermal"
# Outside it a sensor is off or broken: no silicon works there.
_LOWEST_C, _HIGHEST_C = -50.0, 150.0
_MOST_TRIPS = 12
# Zones of the chip itself, on Rockchip's, NVIDIA's, Raspberry Pi's and x86 kernels.
_CHIP_ZONE = re.compile(
    r"(soc\d*|package|bigcore\d*|littlecore|center|gpu|npu|ddr|cpu\d*|cv\d*|tj|x86_pkg_temp)([-_]thermal)?"
)


def parse_millidegrees(text: str) -> float | None:
    """Degrees Celsius of ``43400``; None if the text is no number, or no temperature that silicon works at."""
    number = parse_integer(text)
    return None if number is None else plausible(number / 1000)


def plausible(temp_c: float) -> float | None:
    """The temperature if a working chip can have it, else None: switched-off sensors read -274 or -256 degrees."""
    return temp_c if _LOWEST_C <= temp_c <= _HIGHEST_C else None


@dataclass(frozen=True)
class Zone:
    """A thermal zone.

    Attributes:
        folder: Its folder.
        kind: Its type, e.g. ``npu-thermal``.
        label: The type, numbered where several zones share one.
        passive_c: Where the kernel begins to throttle; None if it does not say.
        critical_c: Where it shuts down; None if it does not say.
    """

    folder: str
    kind: str
    label: str
    passive_c: float | None = None
    critical_c: float | None = None

    @property
    def of_the_chip(self) -> bool:
        """Whether it is a part of the chip, not of a radio, a disk or a battery."""
        return _CHIP_ZONE.fullmatch(self.kind) is not None


@dataclass(frozen=True)
class ThermalMeter:
    """All zones of a board."""

    zones: tuple[Zone, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        """Each zone's temperature."""
        return tuple(f"{zone.folder}/temp" for zone in self.zones)

    def readings(self, texts: Texts) -> list[Reading]:
        """The hottest of the chip's zones (of all, if none is known as the chip's), each zone's, and the trips."""
        each = [(zone, _temperature(zone, texts)) for zone in self.zones]
        chosen = [pair for pair in each if pair[0].of_the_chip] or each
        return [_hottest([reading for _, reading in chosen]), *self._trips(), *(reading for _, reading in each)]

    def _trips(self) -> list[Reading]:
        found = []
        zones = [zone for zone in self.zones if zone.of_the_chip] or list(self.zones)
        for name in ("passive_c", "critical_c"):
            listed = [(value, zone) for zone in zones if (value := getattr(zone, name)) is not None]
            if listed:
                lowest, zone = min(listed, key=lambda pair: pair[0])
                found.append(Reading(name, lowest, "C", f"{zone.folder}/trip_point_*", note=zone.kind))
            else:
                found.append(unknown(name, "C", f"{FOLDER}/thermal_zone*/trip_point_*", "no zone says it"))
        return found


def find(tree: Tree) -> list[ThermalMeter]:
    """The zones of a board, or none."""
    folders = [f"{FOLDER}/{name}" for name in tree.names(FOLDER) if name.startswith("thermal_zone")]
    kinds = tree.read(f"{folder}/type" for folder in folders)
    zones: list[Zone] = []
    for folder in folders:
        kind = kinds[f"{folder}/type"].content or folder.rpartition("/")[2]
        twins = sum(zone.kind == kind for zone in zones)
        zones.append(_zone(tree, folder, kind, f"{kind}#{twins + 1}" if twins else kind))
    return [ThermalMeter(tuple(zones))] if zones else []


def missing() -> Reading:
    """The temperature of a board without zones."""
    return unknown("temp_c", "C", f"{FOLDER}/thermal_zone*", "there is no thermal zone")


def _zone(tree: Tree, folder: str, kind: str, label: str) -> Zone:
    names = set(tree.names(folder))
    numbers = [n for n in range(_MOST_TRIPS) if f"trip_point_{n}_type" in names]
    base = f"{folder}/trip_point_"
    texts = tree.read(f"{base}{n}_{end}" for n in numbers for end in ("type", "temp"))
    trips: dict[str, float] = {}
    for n in numbers:
        temp_c = parse_millidegrees(texts[f"{base}{n}_temp"].content or "")
        trip = texts[f"{base}{n}_type"].content
        # Trips that are not used read 0 or less.
        if trip is not None and temp_c is not None and temp_c > 0:
            trips[trip] = min(temp_c, trips.get(trip, temp_c))
    return Zone(folder, kind, label, trips.get("passive"), trips.get("critical"))


def _temperature(zone: Zone, texts: Texts) -> Reading:
    name, path = f"temp_c/{zone.label}", f"{zone.folder}/temp"
    text = texts[path]
    if text.content is None:
        return unknown(name, "C", path, text.why)
    temp_c = parse_millidegrees(text.content)
    if temp_c is None:
        return unknown(name, "C", path, f"{shortened(text.content)} is no temperature of a working chip")
    return Reading(name, temp_c, "C", path)


def _hottest(readings: list[Reading]) -> Reading:
    known = [reading for reading in readings if reading.value is not None]
    lost = [f"{reading.name.partition('/')[2]}: {reading.unknown}" for reading in readings if reading.value is None]
    if not known:
        return unknown("temp_c", "C", f"{FOLDER}/thermal_zone*/temp", "; ".join(lost))
    hottest = max(known, key=lambda reading: reading.value or 0.0)
    note = f"the hottest, {hottest.name.partition('/')[2]}" + (f"; unknown are {'; '.join(lost)}" if lost else "")
    return Reading("temp_c", hottest.value, "C", hottest.source, note=note)
