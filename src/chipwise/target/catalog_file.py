"""Catalogue files: one chip or board in TOML, read strictly, every number with its source."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from chipwise.errors import InputError
from chipwise.files import read_bounded
from chipwise.target import units
from chipwise.target.board import Board
from chipwise.target.chip import Chip
from chipwise.target.constraints import Constraints

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_T = TypeVar("_T")

_MOST_BYTES = 1 << 20
_REMEDY = "docs/targets.md describes catalogue files"


@dataclass(frozen=True)
class BoardFile:
    """A board and the chip on it.

    Attributes:
        board: The board.
        chip: The name of its chip.
        mode: The chip's mode on it; None for the default.
    """

    board: Board
    chip: str
    mode: str | None = None


_CHIP = TypeAdapter(Chip)
_BOARD = TypeAdapter(BoardFile)
_CONSTRAINTS = TypeAdapter(Constraints)


def read(path: Path, common: Path) -> Chip | BoardFile:
    """Read a catalogue file.

    Args:
        path: The file; the name inside must be the file's.
        common: Folder of constraints that chips share; a file takes them with ``base = ["rknn"]``.

    Raises:
        InputError: The file cannot be read, is no TOML, or says what a catalogue file does not say.
    """
    raw = _parsed(path)
    bases = raw.pop("base", [])
    if not isinstance(bases, list):
        raise _bad(path, "base: expected a list of names")
    for base in bases:
        file = common / f"{base}.toml"
        if not file.is_file():
            raise _bad(path, f"base: there is none called {base!r}")
        raw = _merged(raw, _parsed(file))
    adapter: TypeAdapter[Any] = _BOARD if "board" in raw else _CHIP
    noun: Chip | BoardFile = _validated(adapter, raw, path)
    name = noun.name if isinstance(noun, Chip) else noun.board.name
    if name != path.stem:
        raise _bad(path, f"name: is {name!r}, but the file is called {path.name}")
    return noun


def read_constraints(path: Path) -> Constraints:
    """The constraints of a file in the folder of shared ones, for a target that has no file of its own.

    Raises:
        InputError: As for `read`.
    """
    return _validated(_CONSTRAINTS, _parsed(path).get("constraints", {}), path)


def _parsed(path: Path) -> dict[str, Any]:
    """The file's tables, with sources put in place of their names and numbers in base units."""
    try:
        raw = tomllib.loads(read_bounded(path, _MOST_BYTES).decode("utf-8"))
    except UnicodeDecodeError as e:
        raise _bad(path, "is not UTF-8 text") from e
    except tomllib.TOMLDecodeError as e:
        raise _bad(path, f"is no valid TOML: {e}") from e
    sources = raw.pop("sources", {})
    if not isinstance(sources, dict):
        raise _bad(path, "sources: expected a table")
    try:
        resolved: dict[str, Any] = _resolved(raw, sources, "")
    except ValueError as e:
        raise _bad(path, str(e)) from e
    return resolved


def _resolved(node: Any, sources: dict[str, Any], where: str) -> Any:
    if isinstance(node, list):
        return [_resolved(item, sources, f"{where}[{i}]") for i, item in enumerate(node)]
    if not isinstance(node, dict):
        return node
    table = {key: _resolved(value, sources, f"{where}.{key}".lstrip(".")) for key, value in node.items()}
    if "source" in table:
        key = table.pop("source")
        if not isinstance(key, str) or key not in sources:
            raise ValueError(f"{where}.source: there is no [sources.{key}] in the file")
        table["provenance"] = sources[key]
    value = table.get("value")
    if isinstance(value, str):
        try:
            number = units.parse(value)
        except ValueError as e:
            raise ValueError(f"{where}.value: {e}") from e
        if number is not None:
            table["value"], table["unit"] = number
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        table.setdefault("unit", "1")
    return table


def _merged(own: dict[str, Any], base: dict[str, Any]) -> dict[str, Any]:
    """A chip's tables over the shared ones: lists are joined, the chip's first; of other values the chip's counts."""
    merged = dict(own)
    for key, value in base.items():
        mine = merged.get(key)
        if isinstance(mine, dict) and isinstance(value, dict) and "value" not in value:
            merged[key] = _merged(mine, value)
        elif isinstance(mine, list) and isinstance(value, list):
            merged[key] = [*mine, *value]
        else:
            merged.setdefault(key, value)
    return merged


def _validated(adapter: TypeAdapter[_T], raw: dict[str, Any], path: Path) -> _T:
    try:
        # JSON, because its strict mode takes arrays for tuples and tables for dataclasses.
        return adapter.validate_json(json.dumps(raw, default=str), strict=True, extra="forbid")
    except ValidationError as e:
        errors = e.errors(include_url=False)
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        raise _bad(path, _explained(errors[0]) + more) from e


_SPOKEN: dict[str, Callable[[str], str]] = {
    "unexpected_keyword_argument": lambda where: f"{where}: unknown key",
    "missing": lambda where: (
        f"{where.rpartition('.')[0]}: has no source" if where.endswith("provenance") else f"{where}: is missing"
    ),
    "dataclass_type": lambda where: f"{where}: expected a table with value and source",
    "float_type": lambda where: f"{where}: expected a number, or a number and its unit as in '43.8 GB/s'",
}


def _explained(error: ErrorDetails) -> str:
    where = _dotted(error["loc"])
    if error["type"] in _SPOKEN:
        return _SPOKEN[error["type"]](where)
    message = error["msg"].removeprefix("Value error, ")
    joint = "." if error["type"] == "value_error" else ": "
    return f"{where}{joint}{message}".lstrip(".: ")


def _dotted(loc: Sequence[str | int]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc).lstrip(".")


def _bad(path: Path, what: str) -> InputError:
    return InputError(what, where=str(path), remedy=_REMEDY)
