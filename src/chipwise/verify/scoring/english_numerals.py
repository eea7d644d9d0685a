"""English numerals as digits: twenty-six is 26, two hundred and five is 205, ten minutes is 10 minutes."""

from __future__ import annotations

import re
from decimal import Decimal

_ONES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_TEENS = (
    "ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_SMALL = {
    **{word: value for value, word in enumerate([*_ONES, *_TEENS])},
    **{word: 10 * value for value, word in enumerate(_TENS, 2)},
}
_LARGE = {"thousand": 10**3, "million": 10**6, "billion": 10**9}
NUMERALS = (*_SMALL, "hundred", *_LARGE)
"""The words that English numerals are written with."""

_WORD = "|".join([*sorted(_SMALL, key=len, reverse=True), "hundred", *_LARGE])
_RUN = re.compile(
    # A row of numerals as a whole; one that goes on (twenty-sixth, seven o'clock, two and a half) is no number here.
    rf"(?<![A-Za-z0-9_.-])(?<![0-9]\s)(?<!point\s)(?P<words>(?:{_WORD})(?:(?:\s+and\s+|\s+|-)(?:{_WORD}))*)"
    rf"(?:\s+point(?P<decimals>(?:\s+(?:{'|'.join(_ONES)}))+))?(?![A-Za-z0-9_]|-[A-Za-z])"
    r"(?!\s+(?:o'clock|and\s+a\s+(?:half|quarter)|point\b|halves|thirds?|quarters?|half)|\s*:)"
    r"(?P<unit>\s+(?:degrees?|percent|seconds?|minutes?|hours?|days?|weeks?|meters?|metres?|kilometers?|kilometres?"
    r"|centimeters?|centimetres?|millimeters?|millimetres?|grams?|kilograms?|kilos?|milligrams?|liters?|litres?"
    r"|milliliters?|millilitres?|volts?|amps?|watts?|kilowatts?|hertz|bars?|rpm)(?![A-Za-z]))?",
    re.IGNORECASE,
)
_ANY = re.compile(_WORD, re.IGNORECASE)
_SCALED = re.compile(
    r"(?<![A-Za-z0-9_.,-])(\d{1,12}(?:\.\d{1,12})?)\s+(hundred|thousand|million|billion)(?![A-Za-z-])", re.IGNORECASE
)


def with_english_digits(text: str) -> str:
    """The text with English numerals in digits; ten and less count before a unit only, as one is mostly a pronoun."""
    if not _ANY.search(text):
        return text
    scales = {"hundred": 100, **_LARGE}
    digits = _RUN.sub(_as_digits, text)
    return _SCALED.sub(lambda match: f"{(Decimal(match[1]) * scales[match[2].lower()]).normalize():f}", digits)


def _as_digits(match: re.Match[str]) -> str:
    words = re.split(r"[\s-]+", match["words"].lower())
    value = english_number(words)
    decimals = (match["decimals"] or "").lower().split()
    if value is None or (value <= 10 and not match["unit"] and not decimals):
        return match[0]
    said = f"{value}.{''.join(str(_SMALL[word]) for word in decimals)}" if decimals else str(value)
    return said + (match["unit"] or "")


def english_number(words: list[str]) -> int | None:
    """The value of numerals in a row; None if they make no one number, such as seven thirty or twenty twenty-six."""
    total, group, last = 0, 0, 10**12
    room = 1000  # what the next small numeral must be below
    for i, word in enumerate(words):
        if word == "and":
            if i == 0 or words[i - 1] not in ("hundred", *_LARGE) or i == len(words) - 1:
                return None
        elif word == "hundred":
            # Fifteen hundred is 1500, but nobody says twenty hundred.
            if not (1 <= group <= 9 or (11 <= group <= 99 and group % 10 and not total)):
                return None
            group, room = group * 100, 100
        elif word in _LARGE:
            if not group or _LARGE[word] >= last:
                return None
            total, last = total + group * _LARGE[word], _LARGE[word]
            group, room = 0, 1000
        else:
            value = _SMALL[word]
            if value >= room or (value == 0 and len(words) > 1):
                return None
            group += value
            room = 10 if value >= 20 else 0
    return total + group
