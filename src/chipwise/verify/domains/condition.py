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

UPWARD = 0.7  # share of rules that ask for more; evenly split, the decision would be an exclusive or to learn

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

    @property
    def order(self) -> str:
        """How the reading compares with the limit, whatever is asked."""
        if self.reading == self.limit:
            return "equal"
        return "more" if self.reading > self.limit else "less"

    def choose(self, call: ToolCall) -> ToolCall:
        """`call` where the condition holds, else the call to do nothing; either way with its evidence."""
        chosen = call if self.holds else ToolCall("none")
        evidence = {"reading": self.reading, "limit": self.limit, "is": self.order, "asked": self.relation.id}
        return replace(chosen, evidence=evidence)


def draw_condition(draw: Draw, low: int, high: int) -> Condition:
    """A condition with a limit of whole tens in [low, high] and a reading within 19 of it, never equal.

    Both have two digits, so that the tens decide: comparing them is what a model of a few million
    parameters learns reliably, and what scores here is whether it still does so after quantization.
    """
    relation = draw.choice((ABOVE, AT_LEAST) if draw.chance(UPWARD) else (BELOW, AT_MOST))
    limit = 10 * draw.integer(low // 10, high // 10)
    near = draw.integer(1, 9) + 10 * draw.integer(0, 1)
    return Condition(relation, limit, limit + near if draw.chance(0.5) else limit - near)
