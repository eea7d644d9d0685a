"""JSON compared by meaning: order of fields, forms of numbers and missing nulls do not matter."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from chipwise.verify.scoring.entity import USUAL, same_value

_SHOWN = 60
_ULPS = 4
# Longer texts name no time and no quantity.
_LONGEST = 1024

# "0042" and "1_000" are identifiers. No more digits of an exponent than a float's, lest a comparison take forever.
_NUMBER = re.compile(r"\s*-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?\s*")


def differences(expected: Any, found: Any, *, same: frozenset[str] = USUAL, path: str = "") -> tuple[str, ...]:
    """What differs, in words; empty if both mean the same.

    Fields come in any order, and one that is null may be missing. 26 and 26.0 are the same number, to the last digit,
    and so is "26.0" where a number is expected; "true" is true. Where a text is expected, a number is the same if it is
    written so: 1.1 is no "1.10". Texts are the same if they differ by width, case and spaces only, or name the same
    time or quantity, with its unit; two that are nothing but digits are the same only if they are written alike. Arrays
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
    if isinstance(one, str) and isinstance(other, str):
        if _NUMBER.fullmatch(one) and _NUMBER.fullmatch(other):
            # 1.10 and 1.1 may be versions, 13800138000 is a telephone's.
            return one.strip() == other.strip()
        if max(len(one), len(other)) > _LONGEST:
            return one.casefold().split() == other.casefold().split()
        # Neither may leave out a unit that the other has.
        return same_value(one, other, same) and same_value(other, one, same)
    if isinstance(one, str):
        return isinstance(other, (int, float)) and one.strip() == json.dumps(other)
    if isinstance(other, str):
        return isinstance(one, (int, float)) and _NUMBER.fullmatch(other) is not None and _exact(one) == _exact(other)
    if isinstance(one, float) and isinstance(other, float):
        # What printing and reading may change.
        near = _ULPS * math.ulp(max(abs(one), abs(other)))
        return one == other or (math.isfinite(near) and abs(one - other) <= near)
    return isinstance(one, (int, float)) and isinstance(other, (int, float)) and one == other


def _exact(value: float | str) -> Decimal:
    """A number to the last digit it is written with."""
    return Decimal(repr(value) if isinstance(value, float) else value)


def _truth(value: Any) -> bool | None:
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(value.strip().casefold()) if isinstance(value, str) else None


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
