"""JSON compared by meaning: order of fields, forms of numbers and missing nulls do not matter."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from chipwise.verify.scoring.entity import USUAL, same_value

_SHOWN = 60


def differences(expected: Any, found: Any, *, same: frozenset[str] = USUAL, path: str = "") -> tuple[str, ...]:
    """What differs, in words; empty if both mean the same.

    Fields come in any order, and one that is null may be missing. 26, 26.0 and "26" are the same number, "true" is
    true. Texts are the same if they differ by width, case and spaces only, or name the same time or quantity. Arrays
    keep their order.

    Args:
        expected: What is right.
        found: What the answer holds.
        same: What texts may differ by, see ``entity.NORMALISATIONS``.
        path: Where in the whole this is, for the words.
    """
    return tuple(_differ(expected, found, same, path))


def _differ(expected: Any, found: Any, same: frozenset[str], path: str) -> Iterator[str]:
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        for name in [*expected, *(name for name in found if name not in expected)]:
            yield from _differ(expected.get(name), found.get(name), same, f"{path}.{name}" if path else str(name))
    elif isinstance(expected, list) and isinstance(found, list):
        if len(expected) != len(found):
            yield f"{path or 'the array'} has {len(found)} items, not {len(expected)}"
            return
        for i, (one, other) in enumerate(zip(expected, found, strict=True)):
            yield from _differ(one, other, same, f"{path}[{i}]")
    elif not _same_scalar(expected, found, same):
        where = path or "the value"
        if found is None:
            yield f"{where} is missing, should be {_shown(expected)}"
        elif expected is None:
            yield f"{where} is {_shown(found)}, should not be there"
        else:
            yield f"{where} is {_shown(found)}, not {_shown(expected)}"


def _same_scalar(one: Any, other: Any, same: frozenset[str]) -> bool:
    if isinstance(one, (Mapping, list)) or isinstance(other, (Mapping, list)):
        return False
    if one is None or other is None:
        return one is other
    if isinstance(one, bool) or isinstance(other, bool):
        return _truth(one) is not None and _truth(one) is _truth(other)
    numbers = _number(one), _number(other)
    if None not in numbers:
        return math.isclose(numbers[0] or 0.0, numbers[1] or 0.0, rel_tol=1e-9, abs_tol=1e-12)
    return isinstance(one, str) and isinstance(other, str) and same_value(one, other, same)


def _truth(value: Any) -> bool | None:
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(value.strip().casefold()) if isinstance(value, str) else None


_NUMBER = re.compile(r"\s*-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?\s*")


def _number(value: Any) -> float | None:
    # "0042" and "1_000" are identifiers.
    if isinstance(value, str) and not _NUMBER.fullmatch(value):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
