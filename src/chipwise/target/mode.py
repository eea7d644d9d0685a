"""Mode: one of the memory speeds, clocks or configurations a chip can be built or set to."""

from __future__ import annotations

from dataclasses import dataclass

from chipwise.target.compute_unit import ComputeUnit
from chipwise.target.memory_region import MemoryRegion
from chipwise.target.quantity import Quantity
from chipwise.target.units import check_fields


@dataclass(frozen=True)
class Mode:
    """What is different in this mode.

    Attributes:
        name: Its name; a target is chosen as ``chip@mode``.
        units: Compute units, by name, with only the fields that this mode sets.
        memory: Memories, by name, with only the fields that this mode sets.
        power_w: The power budget.
        note: What else there is to know.
    """

    name: str
    units: tuple[ComputeUnit, ...] = ()
    memory: tuple[MemoryRegion, ...] = ()
    power_w: Quantity | None = None
    note: str = ""

    def __post_init__(self) -> None:
        """Hold the units."""
        check_fields(self)
