"""Reading plain numbers as the kernel writes them; what is none is None."""

from __future__ import annotations

import re

_INTEGER = re.compile(r"[-+]?[0-9]{1,19}")


def parse_integer(text: str) -> int | None:
    """A file's only number, e.g. ``43400``."""
    return int(text) if _INTEGER.fullmatch(text) else None


def parse_integers(text: str) -> tuple[int, ...]:
    """Numbers with white space between them, e.g. ``300000000 400000000``; words that are none are passed over."""
    found = (parse_integer(word) for word in text.split())
    return tuple(number for number in found if number is not None)


def shortened(text: str) -> str:
    """Strange text as a message may show it."""
    first = " ".join(text.split())
    return repr(first if len(first) <= 60 else f"{first[:57]}...")
