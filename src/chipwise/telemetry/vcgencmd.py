"""VcgencmdMeter: what a Raspberry Pi's firmware says."""

from __future__ import annotations

import re
from dataclasses import dataclass

from chipwise.telemetry.files import COMMANDS
from chipwise.telemetry.meter import Texts
from chipwise.telemetry.numbers import shortened
from chipwise.telemetry.reading import Reading, unknown
from chipwise.telemetry.thermal import plausible
from chipwise.telemetry.tree import Tree

TEMP = f"{COMMANDS}/vcgencmd-measure_temp.txt"
THROTTLED = f"{COMMANDS}/vcgencmd-get_throttled.txt"

_TEMP = re.compile(r"temp=(-?\d{1,3}(?:\.\d{1,3})?)'C")
_THROTTLED = re.compile(r"throttled=0x([0-9a-fA-F]{1,8})")
# Bits 0 to 3 say what holds now, bits 16 to 19 what held since the start (Raspberry Pi documentation, vcgencmd).
_BITS = ("under-voltage", "clock capped", "throttled", "soft temperature limit")


def parse_temp(text: str) -> float | None:
    """Degrees Celsius of ``temp=39.2'C``; None if the text is something else."""
    match = _TEMP.fullmatch(text)
    return None if match is None else plausible(float(match[1]))


@dataclass(frozen=True)
class Throttled:
    """What slows a Raspberry Pi down.

    Attributes:
        now: What holds now.
        since_start: What held at some time since the start.
    """

    now: tuple[str, ...]
    since_start: tuple[str, ...]


def parse_throttled(text: str) -> Throttled | None:
    """Read ``throttled=0x50000``; None if the text is something else."""
    match = _THROTTLED.fullmatch(text)
    if match is None:
        return None
    bits = int(match[1], 16)
    now = tuple(name for n, name in enumerate(_BITS) if bits >> n & 1)
    return Throttled(now, tuple(name for n, name in enumerate(_BITS) if bits >> (16 + n) & 1))


@dataclass(frozen=True)
class VcgencmdMeter:
    """The program's two answers."""

    @property
    def paths(self) -> tuple[str, ...]:
        """What it printed."""
        return (TEMP, THROTTLED)

    def readings(self, texts: Texts) -> list[Reading]:
        """The temperature, and 1 if the firmware throttles now."""
        temp, throttled = texts[TEMP], texts[THROTTLED]
        temp_c, bits = parse_temp(temp.content or ""), parse_throttled(throttled.content or "")
        sources = ("vcgencmd measure_temp", "vcgencmd get_throttled")
        found = [
            unknown("temp_c", "C", sources[0], temp.why or f"{shortened(temp.content or '')} is no temperature")
            if temp_c is None
            else Reading("temp_c", temp_c, "C", sources[0])
        ]
        if bits is None:
            why = throttled.why or f"{shortened(throttled.content or '')} is no answer"
            return [*found, unknown("throttled", "1", sources[1], why)]
        words = [f"now: {', '.join(bits.now)}"] if bits.now else []
        words += [f"since the start: {', '.join(bits.since_start)}"] if bits.since_start else []
        return [*found, Reading("throttled", float(bool(bits.now)), "1", sources[1], note="; ".join(words))]


def find(tree: Tree) -> list[VcgencmdMeter]:
    """The program, if it is there."""
    return [VcgencmdMeter()] if TEMP.rpartition("/")[2] in tree.names(COMMANDS) else []
