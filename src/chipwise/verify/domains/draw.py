"""Draw: seeded choices that come out the same on every Python version."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Draw:
    """A stream of choices fixed by its seed text.

    Only `random.Random.random` is used: it is the one method whose sequence the standard library
    promises to keep (docs.python.org/3/library/random.html, "Notes on Reproducibility").
    """

    def __init__(self, seed: str) -> None:
        """Start the stream.

        Args:
            seed: any text; the stream is a function of it alone.
        """
        digest = hashlib.sha256(seed.encode("utf-8")).digest()
        self._random = random.Random(int.from_bytes(digest, "big"))

    def integer(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`, both included."""
        return low + int(self._random.random() * (high - low + 1))

    def chance(self, probability: float) -> bool:
        """True with the given probability (0 to 1)."""
        return self._random.random() < probability

    def choice(self, items: Sequence[T]) -> T:
        """One item of a non-empty sequence."""
        return items[self.integer(0, len(items) - 1)]

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """`count` items without repetition, in random order."""
        pool = list(items)
        return [pool.pop(self.integer(0, len(pool) - 1)) for _ in range(count)]

    def digits(self, count: int) -> str:
        """`count` decimal digits; the first is not zero."""
        return str(self.integer(10 ** (count - 1), 10**count - 1))

    def minute_of_day(self) -> int:
        """Minutes since midnight, 0 to 1439."""
        return self.integer(0, 1439)

    def clock(self) -> str:
        """A time of day as HH:MM."""
        return clock_text(self.minute_of_day())


def clock_text(minute: int) -> str:
    """HH:MM for a number of minutes since midnight; wraps at 24 hours."""
    return f"{minute // 60 % 24:02d}:{minute % 60:02d}"
