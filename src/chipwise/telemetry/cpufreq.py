"""CpufreqMeter: the clocks of the CPU's clusters."""

from __future__ import annotations

from dataclasses import dataclass

from chipwise.telemetry.meter import Texts
from chipwise.telemetry.numbers import parse_integer, shortened
from chipwise.telemetry.reading import Reading, unknown
from chipwise.telemetry.tree import Tree

FOLDER = "sys/devices/system/cpu/cpufreq"


def parse_kilohertz(text: str) -> float | None:
    """Hertz of ``1800000``; None if the text is no number above 0."""
    number = parse_integer(text)
    return None if number is None or number <= 0 else number * 1e3


@dataclass(frozen=True)
class CpufreqMeter:
    """The clusters.

    Attributes:
        policies: Their folders' names, e.g. ``policy0``.
        top_hz: The highest clock of each; None where it is not said.
    """

    policies: tuple[str, ...]
    top_hz: tuple[float | None, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        """The present clocks."""
        return tuple(f"{FOLDER}/{policy}/scaling_cur_freq" for policy in self.policies)

    def readings(self, texts: Texts) -> list[Reading]:
        """Each cluster's clock, and its ratio to the highest."""
        found = []
        for policy, path, top_hz in zip(self.policies, self.paths, self.top_hz, strict=True):
            text = texts[path]
            hz = None if text.content is None else parse_kilohertz(text.content)
            if hz is None:
                why = text.why or f"{shortened(text.content or '')} is no clock"
                found.append(unknown(f"clock_hz/{policy}", "Hz", path, why))
                continue
            found.append(Reading(f"clock_hz/{policy}", hz, "Hz", path))
            if top_hz is not None:
                found.append(Reading(f"clock_ratio/{policy}", min(1.0, hz / top_hz), "1", path))
        return found


def find(tree: Tree) -> list[CpufreqMeter]:
    """The clusters of a board, or none."""
    policies = tuple(name for name in tree.names(FOLDER) if name.startswith("policy"))
    if not policies:
        return []
    paths = [f"{FOLDER}/{policy}/cpuinfo_max_freq" for policy in policies]
    texts = tree.read(paths)
    return [CpufreqMeter(policies, tuple(parse_kilohertz(texts[path].content or "") for path in paths))]
