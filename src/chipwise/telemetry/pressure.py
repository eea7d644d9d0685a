"""PressureMeter: how much of the time programs waited, by /proc/pressure (Documentation/accounting/psi.rst)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from chipwise.telemetry.meter import Texts
from chipwise.telemetry.numbers import shortened
from chipwise.telemetry.reading import Reading, unknown
from chipwise.telemetry.tree import Tree

FOLDER = "proc/pressure"
_KINDS = ("cpu", "memory")
_SOME = re.compile(r"some avg10=(\d{1,3}\.\d{1,4}) avg60=\d{1,3}\.\d{1,4} avg300=\d{1,3}\.\d{1,4} total=\d+")


def parse_pressure(text: str) -> float | None:
    """The share of the last 10 seconds in which some program waited, 0 to 1; None if the text is something else."""
    match = _SOME.match(text)
    return None if match is None else min(100.0, float(match[1])) / 100


@dataclass(frozen=True)
class PressureMeter:
    """Pressure on CPU and memory."""

    @property
    def paths(self) -> tuple[str, ...]:
        """The two files."""
        return tuple(f"{FOLDER}/{kind}" for kind in _KINDS)

    def readings(self, texts: Texts) -> list[Reading]:
        """Both pressures."""
        found = []
        for kind, path in zip(_KINDS, self.paths, strict=True):
            text = texts[path]
            share = None if text.content is None else parse_pressure(text.content)
            name = f"{kind}_pressure"
            if share is None:
                why = text.why or f"{shortened(text.content or '')} is no pressure"
                found.append(unknown(name, "1", path, why))
            else:
                found.append(Reading(name, share, "1", path))
        return found


def find(tree: Tree) -> list[PressureMeter]:
    """The files; they are asked for even where the kernel has none, to say so."""
    del tree
    return [PressureMeter()]
