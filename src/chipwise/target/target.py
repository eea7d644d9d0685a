"""Target: a chip on a board in a mode, the thing models are checked against and built for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, TypeVar

from chipwise.target.board import Board
from chipwise.target.chip import Chip
from chipwise.target.claim import Claim, Topic
from chipwise.target.compute_unit import ComputeUnit, Dtype
from chipwise.target.constraints import Constraints
from chipwise.target.memory_region import MemoryRegion
from chipwise.target.mode import Mode
from chipwise.target.quantity import Quantity
from chipwise.target.scheme_support import SchemeSupport

_Named = TypeVar("_Named", ComputeUnit, MemoryRegion)


@dataclass(frozen=True)
class Target:
    """A chip, the board it sits on, and the mode it runs in.

    Attributes:
        chip: The chip.
        board: The board; None for the bare chip.
        mode: The mode; None for a chip without modes.
    """

    chip: Chip
    board: Board | None = None
    mode: Mode | None = None

    @property
    def name(self) -> str:
        """The name it is chosen by: the board's, else ``chip`` or ``chip@mode``."""
        if self.board is not None:
            return self.board.name
        if self.mode is None or self.mode == self.chip.modes[0]:
            return self.chip.name
        return f"{self.chip.name}@{self.mode.name}"

    @property
    def engine(self) -> str:
        """The runtime models are built for by default."""
        return self.chip.engines[0]

    @property
    def constraints(self) -> Constraints:
        """What the chip and its runtimes accept."""
        return self.chip.constraints

    @property
    def units(self) -> tuple[ComputeUnit, ...]:
        """The compute units as the mode sets them."""
        return _overlaid(self.chip.units, self.mode.units if self.mode else ())

    @property
    def memory(self) -> tuple[MemoryRegion, ...]:
        """The memories as the mode sets them."""
        return _overlaid(self.chip.memory, self.mode.memory if self.mode else ())

    @property
    def accelerator(self) -> ComputeUnit | None:
        """The unit that the default engine runs models on, which a catalogue file lists first; None if unknown."""
        return next(iter(self.units), None)

    @property
    def main_memory(self) -> MemoryRegion | None:
        """The memory that weights are read from."""
        return next((m for m in self.memory if m.role == "main"), None)

    @property
    def memory_bytes(self) -> Quantity | None:
        """Main memory: the board's, else the chip's, else the most that can be attached; None if unknown."""
        if self.board is not None and self.board.memory_bytes is not None:
            return self.board.memory_bytes
        main = self.main_memory
        return None if main is None else main.size_bytes or main.max_bytes

    @property
    def read_bps(self) -> Quantity | None:
        """Reads of main memory at best: as measured on the board, else the chip's in this mode; None if unknown."""
        if self.board is not None and self.board.read_bps is not None:
            return self.board.read_bps
        return None if self.main_memory is None else self.main_memory.read_bps

    def ops_per_s(self, dtype: Dtype) -> float | None:
        """Dense operations a second of the accelerator; None if unknown."""
        return None if self.accelerator is None else self.accelerator.ops_per_s(dtype)

    def scheme(self, name: str, engine: str | None = None) -> SchemeSupport | None:
        """The support of a scheme such as ``w4a16`` by one engine, or the first of the chip's that has it."""
        wanted = self.chip.engines if engine is None else (engine,)
        return next((s for e in wanted for s in self.constraints.schemes if s.name == name and s.engine == e), None)

    def claims_about(self, topic: Topic) -> tuple[Claim, ...]:
        """The repeated claims about a topic, for a rule that sees a user rely on one."""
        return tuple(claim for claim in self.chip.claims if claim.topic == topic)

    def to_dict(self) -> dict[str, Any]:
        """Everything by name, with what the mode and the board make of it; None is unknown."""
        derived: dict[str, Any] = {
            "name": self.name,
            "engine": self.engine,
            "units": [asdict(unit) for unit in self.units],
            "memory": [asdict(region) for region in self.memory],
            "memory_bytes": asdict(self.memory_bytes) if self.memory_bytes else None,
            "read_bps": asdict(self.read_bps) if self.read_bps else None,
        }
        return {**derived, **asdict(self)}


def _overlaid(base: tuple[_Named, ...], changes: Iterable[_Named]) -> tuple[_Named, ...]:
    by_name = {change.name: change for change in changes}
    return tuple(_overlay(thing, by_name[thing.name]) if thing.name in by_name else thing for thing in base)


def _overlay(base: _Named, change: _Named) -> _Named:
    # A field that a mode leaves unset is empty there: None, "", () or {}.
    return replace(base, **{f.name: v for f in fields(change) if (v := getattr(change, f.name))})
