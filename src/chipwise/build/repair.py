"""Repair: what is tried in which order when a recipe fails its gate, until the cheapest that holds is found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from chipwise.build.attempt import Attempt, Tried

BUILDS_MAX = 10
"""Attempts at one recipe, the plain one included."""


class Bench:
    """What was tried of one recipe so far.

    Args:
        first: The plain attempt.
    """

    def __init__(self, first: Tried) -> None:
        self.tried = [first]
        self.best = first

    @property
    def last(self) -> Tried:
        """What the attempt that was handed out last came to."""
        return self.tried[-1]

    @property
    def passed(self) -> bool:
        """Whether an attempt holds the gate."""
        return self.best.passed

    def add(self, tried: Tried) -> None:
        """Take note of an attempt; it becomes the best if it is better."""
        self.tried.append(tried)
        if tried.rank > self.best.rank:
            self.best = tried

    def kept(self, tried: Tried) -> bool:
        """Whether an attempt is the one that is kept, or its change is part of that."""
        steps = tried.attempt.changes
        if not steps:
            return tried is self.best
        return tried.trial is not None and self.best.attempt.changes[: len(steps)] == steps


Change = Callable[[Bench], Iterator[Attempt]]
"""A rung of the ladder: hands out attempts one by one, and may look at the bench between them."""


def climb(bench: Bench, changes: Sequence[Change], run: Callable[[Attempt], Tried], *, limit: int = BUILDS_MAX) -> None:
    """Try changes in order until the gate holds, then let the change that made it hold go on until it is cheapest.

    Each change starts from the best attempt before it, so what helped stays in.

    Args:
        bench: With the plain attempt on it.
        changes: The cheapest first.
        run: Builds and verifies an attempt.
        limit: Attempts in all.
    """
    for change in changes:
        if bench.passed:
            return
        for attempt in change(bench):
            if len(bench.tried) >= limit:
                return
            bench.add(run(attempt))
