"""suite.toml: what a suite says of itself, before its cases."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chipwise.errors import InputError, QueryFileError
from chipwise.files import read_bounded
from chipwise.verify.case import DEFAULT_MAX_TOKENS
from chipwise.verify.case_line import LONGEST_ANSWER
from chipwise.verify.scoring.entity import NORMALISATIONS, USUAL
from chipwise.verify.scoring.settings import DIMENSIONS, ENTITY_TYPES, ScorerSettings
from chipwise.verify.scoring.tool_call import CallRules
from chipwise.verify.thresholds import Thresholds

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SUITE_FILE = "suite.toml"
"""Its name in a suite's folder."""

_MOST_BYTES = 1 << 20
_REMEDY = "docs/verification.md describes suite.toml"
_LINE = re.compile(r"\(at line (\d+)")
_LARGEST_THRESHOLD = 10**9
_KEYS = ("name", "languages", "cases", "max_tokens", "dimensions", "gate")
_OF_DIMENSION = {
    "keyword": ("same", "types"),
    "logic": ("same", "defaults", "ignore", "ordered"),
    "long_range": ("same", "fact_within"),
    "noise": ("same",),
}


@dataclass(frozen=True)
class SuiteFile:
    """What a suite.toml says.

    Attributes:
        name: The suite's name.
        cases: Its files of cases, at least one.
        languages: The languages it says it has.
        max_tokens: Length of an answer where a case names none.
        settings: How cases are scored.
        gate: Thresholds by name, which those of the command line go before.
    """

    name: str
    cases: tuple[Path, ...]
    languages: tuple[str, ...] = ()
    max_tokens: int = DEFAULT_MAX_TOKENS
    settings: ScorerSettings = field(default_factory=ScorerSettings)
    gate: Mapping[str, float] = field(default_factory=dict)


def read_suite_file(path: Path) -> SuiteFile:
    """Read a suite.toml.

    Raises:
        QueryFileError: It is missing or malformed; the message names the line where the reader tells it, else the
            field.
    """
    raw = _parsed(path)
    _known(raw, _KEYS, "", path)
    name = _text(raw.get("name", path.parent.resolve().name), "name", path)
    gate = _table(raw.get("gate", {}), "gate", path)
    for key, value in gate.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise _bad(path, f"gate.{key} is no number")
        if abs(value) > _LARGEST_THRESHOLD:
            raise _bad(path, f"gate.{key} is far beyond any threshold")
    try:
        Thresholds().with_overrides(gate)
    except InputError as e:
        raise QueryFileError(e.what, where=str(path), remedy=e.remedy) from e
    max_tokens = raw.get("max_tokens", DEFAULT_MAX_TOKENS)
    if isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or not 1 <= max_tokens <= LONGEST_ANSWER:
        raise _bad(path, f"max_tokens is {max_tokens!r}, not 1 to {LONGEST_ANSWER}")
    return SuiteFile(
        name=name,
        cases=_case_files(raw.get("cases"), path),
        languages=_texts(raw.get("languages", []), "languages", path),
        max_tokens=max_tokens,
        settings=_settings(raw.get("dimensions"), path),
        gate={key: float(value) for key, value in gate.items()},
    )


def _parsed(path: Path) -> dict[str, Any]:
    try:
        text = read_bounded(path, _MOST_BYTES, error=QueryFileError).decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as e:
        raise _bad(path, f"not UTF-8 (byte {e.start + 1} is none)") from e
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as e:  # a number of more than 4300 digits is a plain ValueError
        line = _LINE.search(str(e))
        # What is missing "at end of document" is missing in its last line.
        where = f"{path}:{line[1] if line else max(1, len(text.splitlines()))}"
        raise QueryFileError(f"no valid TOML ({e})", where=where, remedy=_REMEDY) from e


def _settings(raw: Any, path: Path) -> ScorerSettings:
    if raw is None:
        return ScorerSettings(same=dict.fromkeys(DIMENSIONS, USUAL))
    tables = {
        name: _table(value, f"dimensions.{name}", path) for name, value in _table(raw, "dimensions", path).items()
    }
    _known(tables, DIMENSIONS, "dimensions.", path)
    if not tables:
        raise _bad(path, f"dimensions lists none; there are {', '.join(DIMENSIONS)}")
    for name, table in tables.items():
        _known(table, _OF_DIMENSION[name], f"dimensions.{name}.", path)
    same = {
        name: _among(table.get("same"), NORMALISATIONS, USUAL, f"dimensions.{name}.same", path)
        for name, table in tables.items()
    }
    logic, long_range = tables.get("logic", {}), tables.get("long_range", {})
    within = long_range.get("fact_within", 0.5)
    if isinstance(within, bool) or not isinstance(within, (int, float)) or not 0 < within <= 1:
        raise _bad(path, f"dimensions.long_range.fact_within is {within!r}, not a share of the record")
    return ScorerSettings(
        dimensions=tuple(name for name in DIMENSIONS if name in tables),
        same=same,
        types=_among(
            tables.get("keyword", {}).get("types"),
            ENTITY_TYPES,
            frozenset(ENTITY_TYPES),
            "dimensions.keyword.types",
            path,
        ),
        calls=_call_rules(logic, same.get("logic", USUAL), path),
        fact_within=float(within),
    )


def _call_rules(logic: Mapping[str, Any], same: frozenset[str], path: Path) -> CallRules:
    defaults = _table(logic.get("defaults", {}), "dimensions.logic.defaults", path)
    ordered = logic.get("ordered", True)
    if not isinstance(ordered, bool):
        raise _bad(path, "dimensions.logic.ordered is neither true nor false")
    for tool, given in defaults.items():
        try:
            json.dumps(given, allow_nan=False)
        except (TypeError, ValueError) as e:
            raise _bad(path, f"dimensions.logic.defaults.{tool} has what JSON has not, such as a date or nan") from e
    return CallRules(
        defaults={tool: _table(given, f"dimensions.logic.defaults.{tool}", path) for tool, given in defaults.items()},
        ignore=frozenset(_texts(logic.get("ignore", []), "dimensions.logic.ignore", path)),
        ordered=ordered,
        same=same,
    )


def _case_files(value: Any, path: Path) -> tuple[Path, ...]:
    if value is None:
        found = tuple(sorted(path.parent.glob("*.jsonl")))
        if not found:
            raise _bad(path, "no .jsonl file with cases lies beside it")
        return found
    names = _texts([value] if isinstance(value, str) else value, "cases", path)
    if not names:
        raise _bad(path, "cases names no file")
    return tuple(path.parent / name for name in names)


def _known(table: Mapping[str, Any], names: Sequence[str], prefix: str, path: Path) -> None:
    for name in table:
        if name not in names:
            raise _bad(path, f"no field is named {prefix}{name}; there are {', '.join(names)}")


def _among(value: Any, known: Sequence[str], usual: frozenset[str], name: str, path: Path) -> frozenset[str]:
    if value is None:
        return usual
    for item in (texts := _texts(value, name, path)):
        if item not in known:
            raise _bad(path, f"{name} has {item!r}; there are {', '.join(known)}")
    return frozenset(texts)


def _table(value: Any, name: str, path: Path) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _bad(path, f"{name} is no table")
    return value


def _texts(value: Any, name: str, path: Path) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise _bad(path, f"{name} is no list of texts")
    return tuple(value)


def _text(value: Any, name: str, path: Path) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _bad(path, f"{name} is no text")
    return value


def _bad(path: Path, what: str) -> QueryFileError:
    return QueryFileError(what, where=str(path), remedy=_REMEDY)
