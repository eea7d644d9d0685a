"""The units a catalogue file may write, and the base unit each is kept in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

_PREFIXES = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}

# Written unit -> (base unit, factor). "1" is a plain count.
UNITS: dict[str, tuple[str, float]] = {
    "1": ("1", 1.0),
    "B": ("B", 1.0),
    "KiB": ("B", 2.0**10),
    "MiB": ("B", 2.0**20),
    "GiB": ("B", 2.0**30),
    "s": ("s", 1.0),
    "ms": ("s", 1e-3),
    "us": ("s", 1e-6),
    "ns": ("s", 1e-9),
    "W": ("W", 1.0),
    "mW": ("W", 1e-3),
    "token": ("token", 1.0),
    "MAC/cycle": ("MAC/cycle", 1.0),
    "TOPS": ("op/s", 1e12),
    **{f"{p}{u}": (u, f) for u in ("B/s", "Hz", "op/s") for p, f in {"": 1.0, **_PREFIXES}.items()},
    **{f"{p}B": ("B", f) for p, f in _PREFIXES.items()},
}

BASE_UNITS = frozenset(base for base, _ in UNITS.values())

# The unit a field holds, by the end of its name; a field without such an end holds a count.
_SUFFIXES = {"_bytes": "B", "_bps": "B/s", "_hz": "Hz", "_s": "s", "_w": "W", "_ops": "op/s", "_tokens": "token"}
_NAMES = {"macs_per_cycle": "MAC/cycle"}

_NUMBER_AND_UNIT = re.compile(r"([-+]?\d[\d_]*(?:\.\d+)?(?:[eE][-+]?\d+)?)(\s*)([A-Za-z]\S*)")


def parse(text: str) -> tuple[float, str] | None:
    """Read ``"43.8 GB/s"`` as ``(43.8e9, "B/s")``; None if the text is no number with a unit.

    Raises:
        ValueError: It is a number, a space and a unit that nobody knows.
    """
    match = _NUMBER_AND_UNIT.fullmatch(text.strip())
    if match is None:
        return None
    number, space, unit = match.groups()
    if unit not in UNITS:
        if space:
            raise ValueError(f"unknown unit {unit!r}; known units: {', '.join(sorted(UNITS))}")
        return None  # a name that begins with digits, such as 27700000.npu
    base, factor = UNITS[unit]
    return float(number) * factor, base


def human(value: float, unit: str) -> str:
    """A value in a base unit as a person reads it: ``43.8 GB/s``, ``384 KiB``, ``6.14 TOPS``."""
    if unit == "1":
        return f"{value:,.0f}" if value == int(value) else f"{value:.4g}"
    if unit == "B":
        steps = [(2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB")]
    elif unit == "s":
        steps = [(1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")]
    elif unit == "op/s":
        steps = [(1e12, "TOPS"), (1e9, "GOPS")]
    elif unit in ("B/s", "Hz"):
        steps = [(1e9, f"G{unit}"), (1e6, f"M{unit}"), (1e3, f"k{unit}")]
    else:
        steps = []
    for factor, name in steps:
        if value >= factor * (1 - 1e-12):
            return f"{value / factor:.4g} {name}"
    return f"{value:,.4g} {unit}" if value < 1e4 else f"{value:,.0f} {unit}"


def check_fields(noun: Any) -> None:
    """Hold every quantity of a dataclass against the unit its field's name tells.

    Raises:
        ValueError: A quantity is in another unit, e.g. a ``read_bps`` in hertz.
    """
    for field in fields(noun):
        held = getattr(noun, field.name)
        expected = _NAMES.get(field.name) or next((u for s, u in _SUFFIXES.items() if field.name.endswith(s)), "1")
        for quantity in held.values() if isinstance(held, Mapping) else [held]:
            unit = getattr(quantity, "unit", expected)
            if unit != expected:
                raise ValueError(f"{field.name}: expected {_spoken(expected)}, got {_spoken(unit)}")


def _spoken(unit: str) -> str:
    return "a plain number" if unit == "1" else unit
