"""MeminfoMeter: main memory as /proc/meminfo tells it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from chipwise.telemetry.meter import Texts
from chipwise.telemetry.reading import Reading, unknown
from chipwise.telemetry.tree import Tree

PATH = "proc/meminfo"
_LINE = re.compile(r"(MemTotal|MemAvailable):\s+(\d{1,15}) kB")


@dataclass(frozen=True)
class Meminfo:
    """Main memory.

    Attributes:
        total_bytes: All of it that the kernel has.
        available_bytes: What programs can still take without swapping.
    """

    total_bytes: int | None
    available_bytes: int | None


def parse_meminfo(text: str) -> Meminfo:
    """Read the file; a line that is missing or strange is None."""
    found = {match[1]: int(match[2]) * 1024 for line in text.splitlines() if (match := _LINE.fullmatch(line.strip()))}
    return Meminfo(found.get("MemTotal"), found.get("MemAvailable"))


@dataclass(frozen=True)
class MeminfoMeter:
    """The file."""

    @property
    def paths(self) -> tuple[str, ...]:
        """The file."""
        return (PATH,)

    def readings(self, texts: Texts) -> list[Reading]:
        """Memory that is free, and all of it."""
        text = texts[PATH]
        info = parse_meminfo(text.content or "")
        found = (("free_bytes", "MemAvailable", info.available_bytes), ("total_bytes", "MemTotal", info.total_bytes))
        return [
            unknown(name, "B", PATH, text.why or f"it has no line {line}")
            if value is None
            else Reading(name, value, "B", PATH)
            for name, line, value in found
        ]


def find(tree: Tree) -> list[MeminfoMeter]:
    """The file; it is asked for even where it is missing, to say so."""
    del tree
    return [MeminfoMeter()]
