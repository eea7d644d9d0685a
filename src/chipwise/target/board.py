"""Board: the machine a chip sits in."""

from __future__ import annotations

from dataclasses import dataclass

from chipwise.target.quantity import Quantity
from chipwise.target.units import check_fields


@dataclass(frozen=True)
class Board:
    """What the board decides and the chip leaves open.

    Attributes:
        name: The board's name, by which it can be chosen as a target.
        memory_bytes: The main memory on it.
        read_bps: Reads of main memory, if measured on it.
        power_w: What its supply and cooling sustain.
        note: What else there is to know.
    """

    name: str
    memory_bytes: Quantity | None = None
    read_bps: Quantity | None = None
    power_w: Quantity | None = None
    note: str = ""

    def __post_init__(self) -> None:
        """Hold the units."""
        check_fields(self)
