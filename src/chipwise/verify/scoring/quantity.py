"""Quantities in a text: numbers with the units behind them, made comparable."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from chipwise.verify.scoring.halves import with_decimals
from chipwise.verify.scoring.numerals import with_digits
from chipwise.verify.scoring.units import UNITS, Unit, unit_named
from chipwise.verify.scoring.written import (
    NO_TIME,
    NUMBER_LEFT,
    NUMBER_RIGHT,
    SUM_MARK,
    UNIT_RIGHT,
    plain,
    with_signs,
)

_NAMES = "|".join(re.escape(name) for name in sorted(UNITS, key=len, reverse=True))
_QUANTITY = re.compile(
    # A minus that is its sign belongs to it; after "20-" it is the end of a range.
    rf"{NUMBER_LEFT}(?<!(?<![0-9])-)"
    rf"(?P<number>-?(?:[1-9]\d{{0,2}}(?:,\d{{3}})+|0|[1-9]\d*)(?:\.\d+)?){NUMBER_RIGHT}{NO_TIME}"
    rf"(?:(?:\s|-(?=day|[A-Za-z]{{5}}))?(?P<unit>(?i:{_NAMES}))(?![A-Za-z0-9ΩωΩ]){UNIT_RIGHT})?(?![A-Za-z_]*[0-9])"
)
# A quantity in parts, each in a smaller unit than the one before: 1 h 30 min. 分 is short for 分钟 here.
_PART = rf"(\d{{1,15}}(?:\.\d{{1,15}})?)\s?((?i:{_NAMES}|分))"
_SUM = re.compile(
    rf"{NUMBER_LEFT}(?P<minus>-?){_PART}(?:{SUM_MARK}[^{SUM_MARK}]{{0,6}}{SUM_MARK}{_PART}){{1,4}}(?![A-Za-z0-9]){UNIT_RIGHT}"
)
_PARTS = re.compile(rf"(?:^-?|(?<={SUM_MARK})){_PART}")
_OTHER_SCALE = re.compile(r"fahrenheit|华氏|°\s?f(?![a-z])", re.IGNORECASE)
# A degree beside a scale that is named elsewhere: whose it is, nobody can tell.
_UNCLEAR = Unit("degree of an unclear scale", 1)


@dataclass(frozen=True)
class Quantity:
    """A number, with its unit if it has one.

    Attributes:
        value: The number as written, to the last digit.
        unit: The unit; None for a bare number.
    """

    value: Decimal
    unit: Unit | None

    def says(self, wanted: Quantity) -> bool:
        """Whether this is what was wanted: the same quantity, or the same number where no unit was asked for."""
        if wanted.unit is None or self.unit is None:
            return wanted.unit is None and self.value == wanted.value
        if self.unit == wanted.unit:
            return self.value == wanted.value
        kinds = {self.unit.dimension, wanted.unit.dimension}
        if len(kinds) > 1 and kinds != {"degree", "temperature"}:
            return False
        # "26 degrees" without a scale is taken as Celsius, as 26度 is. Factors of units are rounded, and 0 °C is one
        # of those sums whose result cannot be compared by its share.
        beside = 1e-9 if "temperature" in kinds else 0.0
        return math.isclose(_common(self), _common(wanted), rel_tol=1e-12, abs_tol=beside)


def quantities_in(text: str, *, numerals: bool = True) -> tuple[Quantity, ...]:
    """The quantities that a text names.

    Args:
        text: The text.
        numerals: Whether Chinese numerals count.
    """
    written = _written(text, numerals)
    return tuple(dict.fromkeys(found for found, _, _ in placed_quantities(written)))


def placed_quantities(written: str) -> Iterator[tuple[Quantity, int, int]]:
    """The quantities of a text whose numbers are written one way (``written.with_signs``), with begin and end."""
    unclear = _OTHER_SCALE.search(written) is not None
    for match in _SUM.finditer(written):
        total = _total(match)
        if total is not None:
            yield total, match.start(), match.end()
    for match in _QUANTITY.finditer(written):
        found = _quantity(match)
        if unclear and found.unit is not None and found.unit.dimension == "degree":
            found = Quantity(found.value, _UNCLEAR)
        yield found, match.start(), match.end()


def quantity_of(text: str, *, numerals: bool = True) -> Quantity | None:
    """The quantity that a whole text is; None if it is none."""
    written = _written(text, numerals).strip()
    parts = _SUM.fullmatch(written)
    if parts is not None:
        return _total(parts)
    match = _QUANTITY.fullmatch(written)
    if match is None or (match["unit"] and unit_named(match["unit"]) is None):
        return None
    return _quantity(match)


def _written(text: str, numerals: bool) -> str:
    text = with_decimals(plain(text))
    return with_signs(with_digits(text) if numerals else text)


def _quantity(match: re.Match[str]) -> Quantity:
    unit = match["unit"]
    return Quantity(Decimal(match["number"].replace(",", "")), unit_named(unit) if unit else None)


def _total(match: re.Match[str]) -> Quantity | None:
    """The sum of parts, in the smallest unit; None if they are not of one kind."""
    parts = [(Decimal(number), unit_named({"分": "分钟"}.get(name, name))) for number, name in _PARTS.findall(match[0])]
    last = parts[-1][1]
    if last is None:
        return None
    total = Decimal(0)
    for number, unit in parts:
        if unit is None or unit.dimension != last.dimension:
            return None
        total += number * Decimal(round(unit.factor / last.factor))
    return Quantity(-total if match["minus"] else total, last)


def _common(quantity: Quantity) -> float:
    unit = quantity.unit
    return float(quantity.value) if unit is None else float(quantity.value) * unit.factor + unit.offset
