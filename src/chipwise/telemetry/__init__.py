"""Telemetry: what a board says of its temperature, power, clocks, load and memory, and from where.

`open_meters` looks at the machine it runs on, or at a recording of a board; `BoardMonitor` reads at a rate.
"""

from __future__ import annotations

from chipwise.telemetry.board_meters import BoardMeters
from chipwise.telemetry.files import BoardFiles, FolderFiles
from chipwise.telemetry.monitor import BoardMonitor
from chipwise.telemetry.open import open_files, open_meters
from chipwise.telemetry.reading import Reading
from chipwise.telemetry.state import HardwareState
from chipwise.telemetry.tree import Tree

__all__ = [
    "BoardFiles",
    "BoardMeters",
    "BoardMonitor",
    "FolderFiles",
    "HardwareState",
    "Reading",
    "Tree",
    "open_files",
    "open_meters",
]
