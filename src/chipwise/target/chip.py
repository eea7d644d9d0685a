"""Chip: what a system on chip is, apart from the board it sits on and what a user wants of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from chipwise.target.claim import Claim
from chipwise.target.compute_unit import ComputeUnit
from chipwise.target.constraints import Constraints
from chipwise.target.memory_region import MemoryRegion
from chipwise.target.mode import Mode
from chipwise.target.quantity import Fact


@dataclass(frozen=True)
class Chip:
    """One chip, or processor core, of the catalogue.

    Attributes:
        name: Its name, in small letters, equal to its file's.
        vendor: Who makes it.
        engines: Runtimes that drive it, the usual one first.
        units: Its compute units, accelerators first.
        memory: Its memories.
        constraints: What it accepts.
        modes: Memory speeds, clocks or configurations to choose from; the first is the default.
        claims: Widely repeated claims, held against the vendor's documents.
        devices: Names in the operating system by use, e.g. ``npu_devfreq``.
        notes: What else there is to know.
    """

    name: str
    vendor: str
    engines: tuple[str, ...]
    units: tuple[ComputeUnit, ...] = ()
    memory: tuple[MemoryRegion, ...] = ()
    constraints: Constraints = field(default_factory=Constraints)
    modes: tuple[Mode, ...] = ()
    claims: tuple[Claim, ...] = ()
    devices: Mapping[str, Fact[str]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """A chip needs an engine, names that are unique, and modes of units and memories that it has."""
        if not self.engines:
            raise ValueError("engines: is empty")
        for named in (self.units, self.memory, self.modes):
            names = [thing.name for thing in named]
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise ValueError(f"name: used twice: {', '.join(twice)}")
        for mode in self.modes:
            self._check_mode(mode)

    def _check_mode(self, mode: Mode) -> None:
        own = {unit.name for unit in self.units} | {region.name for region in self.memory}
        unknown = {thing.name for thing in (*mode.units, *mode.memory)} - own
        if unknown:
            raise ValueError(f"modes: {mode.name} changes {', '.join(sorted(unknown))}, which the chip does not have")
