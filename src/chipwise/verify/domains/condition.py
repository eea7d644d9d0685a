"""Condition: "above 26" and the like, said in two languages and evaluated."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace

from chipwise.verify.domains.case import Term, ToolCall
from chipwise.verify.domains.draw import Draw

ABOVE = Term("above", "above", "高于")
BELOW = Term("below", "below", "低于")
AT_LEAST = Term("at_least", "at least", "不低于")
AT_MOST = Term("at_most", "at most", "不高于")

COMPARE: dict[str, Callable[[int, int], bool]] = {
    "above": operator.gt,
    "below": operator.lt,
    "at_least": operator.ge,
    "at_most": operator.le,
}


@dataclass(frozen=True)
class Condition:
    """A comparison with a limit, and the reading it is asked about."""

    relation: Term
    limit: int
    reading: int

    @property
    def holds(self) -> bool:
        """Whether the reading satisfies the relation."""
        return COMPARE[self.relation.id](self.reading, self.limit)

    def choose(self, call: ToolCall) -> ToolCall:
        """`call` where the condition holds, else the call to do nothing; either way with its evidence."""
        chosen = call if self.holds else ToolCall("none")
        return replace(chosen, evidence={"reading": self.reading, "limit": self.limit})


def draw_condition(draw: Draw, low: int, high: int, spread: int) -> Condition:
    """A condition whose limit lies in [low, high] and whose reading lies within `spread` of it."""
    relation = draw.choice((ABOVE, BELOW, AT_LEAST, AT_MOST))
    limit = draw.integer(low, high)
    return Condition(relation, limit, limit + draw.integer(-spread, spread))
