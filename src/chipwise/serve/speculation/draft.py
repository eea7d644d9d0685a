"""Draft: tokens that somebody guesses an answer goes on with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Hint = Literal["grammar", "long", "middle", "short"]
"""Where a guessed token comes from: the grammar forces its text, or what followed 8, 4 or fewer equal tokens before."""


@dataclass(frozen=True)
class Draft:
    """A guess.

    Attributes:
        tokens: Token ids, in order.
        hints: Where each comes from.
    """

    tokens: tuple[int, ...] = ()
    hints: tuple[Hint, ...] = ()

    def __len__(self) -> int:
        """How many tokens it has."""
        return len(self.tokens)

    def first(self, count: int) -> Draft:
        """Its first tokens."""
        return Draft(self.tokens[:count], self.hints[:count])


NO_DRAFT = Draft()
