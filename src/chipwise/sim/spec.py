"""BoardSpec: what a virtual board is made of, read from ``boards/*.toml``, every number with its source."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter

from chipwise.errors import InputError
from chipwise.target import Provenance, load_target

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PREFIX = "sim:"
"""How a virtual board is named where a folder could stand: ``sim:rk3576``."""

_FOLDER = Path(__file__).parent / "boards"

Place = Literal["accelerator", "cpu", "package", "board"]
PLACES: tuple[Place, ...] = ("accelerator", "cpu", "package", "board")
"""The nodes of the thermal model, in the order of its vectors."""


@dataclass(frozen=True)
class Parameter:
    """A number of the model and where it comes from."""

    value: float
    provenance: Provenance


@dataclass(frozen=True)
class Clocks:
    """The accelerator's clocks, upwards, and where the table comes from."""

    value: tuple[float, ...]
    provenance: Provenance


@dataclass(frozen=True)
class Node:
    """A part of the board that has one temperature; it passes heat to one other part, or to the air.

    Attributes:
        joules_per_k: Its heat capacity.
        to_package_w_per_k: Conductance to the package, for what lies in it.
        to_board_w_per_k: From the package to the board.
        to_air_w_per_k: From the board to the air.
    """

    joules_per_k: Parameter
    to_package_w_per_k: Parameter | None = None
    to_board_w_per_k: Parameter | None = None
    to_air_w_per_k: Parameter | None = None

    @property
    def w_per_k(self) -> float:
        """Its conductance outwards."""
        found = self.to_package_w_per_k or self.to_board_w_per_k or self.to_air_w_per_k
        if found is None:
            raise ValueError("a node passes its heat to nothing")
        return found.value


@dataclass(frozen=True)
class Parameters:
    """The numbers of a board.

    Attributes:
        memory_bytes: Main memory that the kernel has.
        clocks_hz: The accelerator's clocks.
        lowest_volts_ratio: Voltage at the lowest clock over that at the highest; between them it is linear.
        passive_c: From here on the kernel lowers the clock.
        critical_c: Here it switches the board off.
        hysteresis_c: How far below ``passive_c`` the clock may rise again.
        governor_s: How often the kernel decides, one clock step at a time.
        idle_w: What the board draws doing nothing.
        accelerator_w: What full load of the accelerator at its highest clock adds.
        cpu_w: What full load of the CPU adds.
    """

    memory_bytes: Parameter
    clocks_hz: Clocks
    lowest_volts_ratio: Parameter
    passive_c: Parameter
    critical_c: Parameter
    hysteresis_c: Parameter
    governor_s: Parameter
    idle_w: Parameter
    accelerator_w: Parameter
    cpu_w: Parameter


@dataclass(frozen=True)
class BoardSpec:
    """A virtual board.

    Attributes:
        chip: Its chip's name in the catalogue.
        format: How its files look.
        accelerator: What runs the model.
        parameters: Its numbers.
        nodes: The parts of the thermal model.
        zones: Its temperature sensors, and the part each sits in (``hottest``: the hottest of all).
    """

    chip: str
    format: Literal["rockchip", "jetson"]
    accelerator: Literal["npu", "gpu"]
    parameters: Parameters
    nodes: Mapping[Place, Node]
    zones: Mapping[str, str]

    @property
    def cores(self) -> int:
        """Cores of the accelerator, by the catalogue; 1 where it does not say."""
        unit = load_target(self.chip, ()).accelerator
        return int(unit.count.value) if unit is not None and unit.count is not None else 1

    @property
    def device(self) -> str:
        """Name of the accelerator's devfreq device, by the catalogue."""
        fact = load_target(self.chip, ()).chip.devices.get("npu_devfreq")
        return fact.value if fact is not None else f"17000000.{self.accelerator}"

    @property
    def assumed(self) -> tuple[str, ...]:
        """The parameters nobody vouches for, by name."""
        found = {name: value.provenance for name, value in vars(self.parameters).items()}
        for place, node in self.nodes.items():
            found |= {f"{place}.{name}": value.provenance for name, value in vars(node).items() if value is not None}
        return tuple(name for name, provenance in found.items() if not provenance.verified)


_SPEC = TypeAdapter(BoardSpec)


def board_names() -> tuple[str, ...]:
    """The boards there are."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))


def load_spec(name: str) -> BoardSpec:
    """A virtual board by name, with or without ``sim:`` in front.

    Raises:
        InputError: There is none of that name.
    """
    bare = name.removeprefix(PREFIX)
    if bare not in board_names():
        listed = ", ".join(PREFIX + known for known in board_names())
        raise InputError(f"there is no virtual board {bare!r}", remedy=f"known: {listed}")
    raw = tomllib.loads((_FOLDER / f"{bare}.toml").read_text("utf-8"))
    resolved = _resolved(raw, raw.pop("sources"))
    return _SPEC.validate_json(json.dumps(resolved), strict=True, extra="forbid")


def _resolved(node: Any, sources: Mapping[str, Any]) -> Any:
    """The tables with sources in the place of their names."""
    if not isinstance(node, dict):
        return node
    table = {key: _resolved(value, sources) for key, value in node.items()}
    if "source" in table:
        table["provenance"] = sources[table.pop("source")]
    return table
