"""Fields: settings read from a file, where every error names the field."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chipwise.errors import ModelFormatError
from chipwise.model.importer.file_checks import read_text

_MOST = (1 << 31) - 1

MOST_LAYERS = 4096
"""More layers than any model has. Lists of a thing a layer are made before the weights are looked at."""


class Fields:
    """Named settings of a config.json or of GGUF metadata. ``None`` counts as absent."""

    def __init__(self, values: Mapping[str, Any], where: str, defaults: Mapping[str, Any] | None = None) -> None:
        self.values = {**(defaults or {}), **{k: v for k, v in values.items() if v is not None}}
        self.where = where

    def __contains__(self, name: object) -> bool:
        return self.values.get(name) is not None if isinstance(name, str) else False

    def get(self, name: str) -> Any:
        """The value as it was read, None if absent."""
        return self.values.get(name)

    def integer(self, name: str, default: int | None = None, *, most: int = _MOST) -> int:
        """A whole number from 1 to ``most``.

        Raises:
            ModelFormatError: It is absent and there is no default, or it is something else.
        """
        value = self.values.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= most:
            raise self._error(
                name, value, "a whole number above 0" + (f", at most {most}" if _above(value, most) else "")
            )
        return value

    def number(self, name: str, default: float | None = None) -> float:
        """A finite number.

        Raises:
            ModelFormatError: It is absent and there is no default, or it is something else.
        """
        value = self.values.get(name, default)
        if value is None or not _is_number(value):
            raise self._error(name, value, "a number")
        return float(value)

    def positive(self, name: str, default: float | None = None) -> float:
        """A finite number above zero.

        Raises:
            ModelFormatError: It is absent and there is no default, or it is something else.
        """
        value = self.number(name, default)
        if value <= 0:
            raise self._error(name, value, "a number above 0")
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        """True or false.

        Raises:
            ModelFormatError: It is something else.
        """
        value = self.values.get(name, default)
        if not isinstance(value, bool):
            raise self._error(name, value, "true or false")
        return value

    def text(self, name: str, default: str | None = None) -> str:
        """A text.

        Raises:
            ModelFormatError: It is absent and there is no default, or it is something else.
        """
        value = self.values.get(name, default)
        if not isinstance(value, str):
            raise self._error(name, value, "a text")
        return value

    def numbers(self, name: str, length: int) -> tuple[float, ...]:
        """A list of ``length`` numbers.

        Raises:
            ModelFormatError: It is absent or something else.
        """
        value = self.values.get(name)
        if not isinstance(value, list) or len(value) != length or not all(_is_number(x) for x in value):
            raise self._error(name, value, f"a list of {length} numbers")
        return tuple(float(x) for x in value)

    def section(self, name: str) -> Fields:
        """A group of settings inside these; empty if absent.

        Raises:
            ModelFormatError: It is something else.
        """
        value = self.values.get(name, {})
        if not isinstance(value, dict):
            raise self._error(name, value, "a group of settings")
        return Fields(value, f"{self.where}: {name}")

    def _error(self, name: str, value: Any, wanted: str) -> ModelFormatError:
        shown = "missing" if value is None else f"{str(value)[:60]!r}"
        return ModelFormatError(
            f"{name} is {shown}, expected {wanted}", where=self.where, remedy="correct it, or download the model again"
        )


def read_json(path: Path) -> Fields:
    """The object a JSON file holds.

    Raises:
        ModelFormatError: The file is missing, empty, a Git-LFS pointer, no JSON, or no object.
    """
    try:
        values = json.loads(read_text(path))
    except (ValueError, RecursionError) as e:
        raise ModelFormatError(f"not JSON ({e})", where=str(path), remedy="download the file again") from e
    if not isinstance(values, dict):
        raise ModelFormatError("not a JSON object", where=str(path), remedy="download the file again")
    return Fields(values, str(path))


def _is_number(value: object) -> bool:
    """A finite number that a float can hold: JSON's whole numbers have no end."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) <= sys.float_info.max if isinstance(value, int) else math.isfinite(value)


def _above(value: Any, most: int) -> bool:
    return isinstance(value, int) and value > most
