"""Targets: what a chip can do and what it accepts, each fact with its source.

`load_target("rk3588")` reads the catalogue; `load_target("host")` looks at the machine it runs on.
"""

from __future__ import annotations

from chipwise.target.alignment import Alignment
from chipwise.target.board import Board
from chipwise.target.catalog import catalog, load_target, names
from chipwise.target.chip import Chip
from chipwise.target.claim import Claim
from chipwise.target.compute_unit import ComputeUnit
from chipwise.target.constraints import Constraints
from chipwise.target.memory_region import MemoryRegion
from chipwise.target.mode import Mode
from chipwise.target.placement import Placement
from chipwise.target.provenance import Provenance
from chipwise.target.quantity import Fact, Quantity
from chipwise.target.scheme_support import SchemeSupport
from chipwise.target.target import Target

__all__ = [
    "Alignment",
    "Board",
    "Chip",
    "Claim",
    "ComputeUnit",
    "Constraints",
    "Fact",
    "MemoryRegion",
    "Mode",
    "Placement",
    "Provenance",
    "Quantity",
    "SchemeSupport",
    "Target",
    "catalog",
    "load_target",
    "names",
]
