"""HwmonMeter: temperatures and power of sensor chips (Documentation/hwmon/sysfs-interface.rst of the kernel)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from chipwise.telemetry.meter import Texts
from chipwise.telemetry.numbers import parse_integer, shortened
from chipwise.telemetry.reading import Reading, unknown
from chipwise.telemetry.thermal import parse_millidegrees
from chipwise.telemetry.tree import Text, Tree

FOLDER = "sys/class/hwmon"
_INPUT_RAIL = "VDD_IN"
_TEMP = re.compile(r"temp(\d{1,3})_input")
_POWER = re.compile(r"power(\d{1,3})_(?:input|average)")
_CURRENT = re.compile(r"curr(\d{1,3})_input")
# Sensors inside a processor; others sit in disks, radios and power supplies.
_CHIP_SENSORS = ("coretemp", "k10temp", "zenpower", "cpu_thermal", "soc_thermal", "scpi_sensors")


def parse_microwatts(text: str) -> float | None:
    """Watts of ``5251000``; None if the text is no number, or below 0."""
    number = parse_integer(text)
    return None if number is None or number < 0 else number / 1e6


def parse_milli(text: str) -> float | None:
    """Volts or amperes of ``5088``; None if the text is no number, or below 0."""
    number = parse_integer(text)
    return None if number is None or number < 0 else number / 1e3


@dataclass(frozen=True)
class Sensor:
    """One sensor of a chip.

    Attributes:
        name: What is read, e.g. ``power_w/VDD_IN``.
        inputs: Its files: one, or a voltage and a current whose product it is.
        of_the_chip: Whether it sits in the processor.
    """

    name: str
    inputs: tuple[str, ...]
    of_the_chip: bool = False

    def reading(self, texts: Texts) -> Reading:
        """Its value."""
        source = " x ".join(self.inputs)
        unit = "C" if self.name.startswith("temp_c") else "W"
        values = []
        for path in self.inputs:
            text = texts[path]
            value = None if text.content is None else self._parsed(text.content)
            if value is None:
                return unknown(self.name, unit, path, text.why or f"{shortened(text.content or '')} is no value")
            values.append(value)
        return Reading(self.name, values[0] * values[1] if len(values) == 2 else values[0], unit, source)

    def _parsed(self, text: str) -> float | None:
        if len(self.inputs) == 2:
            return parse_milli(text)
        return parse_millidegrees(text) if self.name.startswith("temp_c") else parse_microwatts(text)


@dataclass(frozen=True)
class HwmonMeter:
    """All sensors of a board."""

    sensors: tuple[Sensor, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        """Their files."""
        return tuple(path for sensor in self.sensors for path in sensor.inputs)

    def readings(self, texts: Texts) -> list[Reading]:
        """Each value; the power of the board's input; the processor's temperature."""
        each = [(sensor, sensor.reading(texts)) for sensor in self.sensors]
        power = next((r for s, r in each if s.name == f"power_w/{_INPUT_RAIL}"), None)
        whole = [] if power is None else [_as("power_w", power, _INPUT_RAIL)]
        chip = [r for s, r in each if s.of_the_chip and r.value is not None]
        hottest = max(chip, key=lambda r: r.value or 0.0, default=None)
        temp = [] if hottest is None else [_as("temp_c", hottest, f"the hottest, {hottest.name.partition('/')[2]}")]
        return [*temp, *whole, *(reading for _, reading in each)]


def find(tree: Tree) -> list[HwmonMeter]:
    """The sensors of a board, or none."""
    sensors = [sensor for folder in tree.names(FOLDER) for sensor in _sensors(tree, f"{FOLDER}/{folder}")]
    return [HwmonMeter(tuple(sensors))] if sensors else []


def _sensors(tree: Tree, folder: str) -> list[Sensor]:
    names = tree.names(folder)
    labels = [name for name in names if name.endswith("_label")]
    texts = tree.read(f"{folder}/{name}" for name in ("name", *labels))
    chip = texts[f"{folder}/name"].content or folder.rpartition("/")[2]

    def label(stem: str) -> str:
        return texts.get(f"{folder}/{stem}_label", Text(None, "none")).content or f"{chip}/{stem}"

    found: dict[str, Sensor] = {}
    for name in names:
        if match := _TEMP.fullmatch(name):
            key = f"temp_c/{chip}/{label('temp' + match[1]).removeprefix(chip + '/')}"
            found.setdefault(key, Sensor(key, (f"{folder}/{name}",), chip in _CHIP_SENSORS))
        elif match := _POWER.fullmatch(name):
            key = f"power_w/{label('power' + match[1])}"
            found.setdefault(key, Sensor(key, (f"{folder}/{name}",)))
        elif (match := _CURRENT.fullmatch(name)) and f"in{match[1]}_input" in names:
            # The power monitors of Jetsons give volts and amperes.
            key = f"power_w/{label('in' + match[1])}"
            found.setdefault(key, Sensor(key, (f"{folder}/in{match[1]}_input", f"{folder}/{name}")))
    return list(found.values())


def _as(name: str, reading: Reading, note: str) -> Reading:
    return Reading(name, reading.value, reading.unit, reading.source, reading.unknown, note)
