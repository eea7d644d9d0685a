"""MemoryRegion: one memory a chip reads weights and activations from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from chipwise.target.quantity import Quantity
from chipwise.target.units import check_fields

MemoryRole = Literal["main", "onchip", "cache"]


@dataclass(frozen=True)
class MemoryRegion:
    """A memory and its speed. Every field that is None is unknown.

    Attributes:
        name: Its name, e.g. ``dram`` or ``nbuf``.
        role: ``main`` (weights live here), ``onchip`` (scratch memory the compiler manages), ``cache``.
        count: How many of them there are, each of ``size_bytes``; None means one.
        size_bytes: The size of one.
        max_bytes: The most that can be attached, for main memory soldered beside the chip.
        available_bytes: What was free when the machine was looked at.
        bus_bits: Width of the data bus.
        read_bps: Reads at best: bus width times transfer rate, or measured.
        write_bps: Writes at best.
        sustained_read_bps: What real decoders reach.
        latency_s: Time from a read's request to its data.
        note: What else there is to know.
    """

    name: str
    role: MemoryRole
    count: Quantity | None = None
    size_bytes: Quantity | None = None
    max_bytes: Quantity | None = None
    available_bytes: Quantity | None = None
    bus_bits: Quantity | None = None
    read_bps: Quantity | None = None
    write_bps: Quantity | None = None
    sustained_read_bps: Quantity | None = None
    latency_s: Quantity | None = None
    note: str = ""

    def __post_init__(self) -> None:
        """Hold the units."""
        check_fields(self)
