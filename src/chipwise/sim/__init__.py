"""Virtual boards: models of heat, clocks, load and memory behind the files of a real board, for tests and rehearsals.

`load_spec("rk3576")` names one, `VirtualBoard` lets time pass, `VirtualFiles` and `FolderBoard` show it to meters.
"""

from __future__ import annotations

from chipwise.sim.folder_board import FolderBoard, RealTime
from chipwise.sim.spec import PREFIX, BoardSpec, Parameter, board_names, load_spec
from chipwise.sim.virtual_board import IDLE, Activity, VirtualBoard
from chipwise.sim.virtual_files import VirtualFiles

__all__ = [
    "IDLE",
    "PREFIX",
    "Activity",
    "BoardSpec",
    "FolderBoard",
    "Parameter",
    "RealTime",
    "VirtualBoard",
    "VirtualFiles",
    "board_names",
    "load_spec",
]
