"""Quantities in a text: numbers with the units behind them, made comparable."""

from __future__ import annotations

import math
import re
import unicodedata
from dataclasses import dataclass

from chipwise.verify.scoring.numerals import with_digits
from chipwise.verify.scoring.units import UNITS, Unit

# A number from a text and one from a table of units differ by rounding at most.
_TOLERANCE = 1e-9

_NAMES = "|".join(re.escape(name) for name in sorted(UNITS, key=len, reverse=True))
_DASHES = dict.fromkeys([*range(0x2010, 0x2016), 0x2212], "-")
_QUANTITY = re.compile(
    # Not within an identifier, a time or a longer number, nor behind a minus that is its sign; after "20-" it is the
    # end of a range.
    r"(?<![A-Za-z0-9_])(?<![0-9][.:])(?<!(?<![0-9])-)"
    r"(?P<number>-?(?:[1-9]\d{0,2}(?:,\d{3})+|0|[1-9]\d*)(?:\.\d+)?)(?![0-9]|[.:][0-9]|,[0-9]{3})"
    rf"(?:\s?(?P<unit>{_NAMES})(?![A-Za-z0-9]))?(?![A-Za-z_]*[0-9])"
)


@dataclass(frozen=True)
class Quantity:
    """A number, with its unit if it has one.

    Attributes:
        value: The number as written.
        unit: The unit; None for a bare number.
    """

    value: float
    unit: Unit | None

    def says(self, wanted: Quantity) -> bool:
        """Whether this is what was wanted: the same quantity, or the same number where no unit was asked for."""
        if wanted.unit is None or self.unit is None:
            return wanted.unit is None and _close(self.value, wanted.value)
        kinds = {self.unit.dimension, wanted.unit.dimension}
        if len(kinds) == 1 or kinds == {"degree", "temperature"}:
            # "26 degrees" without a scale is taken as Celsius, as 26度 is.
            return _close(_common(self), _common(wanted))
        return False


def quantities_in(text: str, *, numerals: bool = True) -> tuple[Quantity, ...]:
    """The quantities that a text names.

    Args:
        text: The text.
        numerals: Whether Chinese numerals count.
    """
    plain = unicodedata.normalize("NFKC", text).translate(_DASHES)
    matches = _QUANTITY.finditer(with_digits(plain) if numerals else plain)
    return tuple(dict.fromkeys(_quantity(match) for match in matches))


def quantity_of(text: str, *, numerals: bool = True) -> Quantity | None:
    """The quantity that a whole text is; None if it is none."""
    plain = unicodedata.normalize("NFKC", text).translate(_DASHES).strip()
    match = _QUANTITY.fullmatch(with_digits(plain) if numerals else plain)
    return _quantity(match) if match else None


def _quantity(match: re.Match[str]) -> Quantity:
    unit = match["unit"]
    return Quantity(float(match["number"].replace(",", "")), UNITS[unit] if unit else None)


def _common(quantity: Quantity) -> float:
    unit = quantity.unit
    return quantity.value if unit is None else quantity.value * unit.factor + unit.offset


def _close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=_TOLERANCE, abs_tol=1e-12) or abs(one - other) <= _TOLERANCE * 100
