"""Chip: what a system on chip is, apart from the board it sits on and what a user wants of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from chipwise.target.claim import Claim
from chipwise.target.compute_unit import ComputeUnit, Dtype
from chipwise.target.constraints import Constraints
from chipwise.target.memory_region import MemoryRegion
from chipwise.target.mode import Mode
from chipwise.target.quantity import Fact, Quantity
from chipwise.target.units import check_fields


@dataclass(frozen=True)
class Chip:
    """One chip, or processor core, of the catalogue.

    Attributes:
        name: Its name, in small letters, equal to its file's.
        vendor: Who makes it.
        engines: Runtimes that drive it, the usual one first.
        units: Its compute units, the one that the usual runtime runs models on first.
        memory: Its memories.
        constraints: What it accepts.
        unit_constraints: What one of its units accepts beside that, by the unit's name.
        total_sparse_ops: Sparse operations a second of all accelerators together, as the maker adds them up.
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
    unit_constraints: Mapping[str, Constraints] = field(default_factory=dict)
    total_sparse_ops: Mapping[Dtype, Quantity] = field(default_factory=dict)
    modes: tuple[Mode, ...] = ()
    claims: tuple[Claim, ...] = ()
    devices: Mapping[str, Fact[str]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """A chip needs an engine, unique names, and limits and modes of units and memories that it has."""
        check_fields(self)
        if not self.engines:
            raise ValueError("engines: is empty")
        for names in ([u.name for u in self.units], [m.name for m in self.memory], [m.name for m in self.modes]):
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise ValueError(f"name: used twice: {', '.join(twice)}")
        self._check_parts("unit_constraints", set(self.unit_constraints), {unit.name for unit in self.units})
        for mode in self.modes:
            where = f"modes: {mode.name}"
            self._check_parts(where, {u.name for u in mode.units}, {u.name for u in self.units})
            self._check_parts(where, {m.name for m in mode.memory}, {m.name for m in self.memory})

    def _check_parts(self, where: str, named: set[str], own: set[str]) -> None:
        if named - own:
            raise ValueError(f"{where}: {', '.join(sorted(named - own))} is no part of {self.name}")
