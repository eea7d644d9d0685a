"""Replay: which requests are tried again when the engine was lost, and which one it was that killed it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from chipwise.serve.ticket import Ticket

# A request that got so far beyond where the engine was lost is not what killed it.
_CLEARED_TOKENS = 16
_SUSPECT_LOSSES = 2


@dataclass(frozen=True)
class ReplayRules:
    """How often a request is tried again.

    Attributes:
        replays: Tries after the first, for a request that was alone in the step that the engine was lost in.
        most: Tries after the first, whoever else was in the step.
    """

    replays: int = 2
    most: int = 6


class Replay:
    """Finds the request that kills the engine, by whom the lost steps had in common.

    The first loss may be chance: all go on together. Those that were in the step of a second one are suspects, and
    until they are over or cleared requests run one at a time: the next loss names one request, not several.
    """

    def __init__(self, rules: ReplayRules | None = None) -> None:
        self._rules = rules or ReplayRules()
        self._suspects: set[Ticket] = set()

    def blame(self, tickets: Iterable[Ticket]) -> list[Ticket]:
        """The engine was lost in a step.

        Args:
            tickets: The requests that the step had.

        Returns:
            Those that are not to be tried again.
        """
        blamed = list(tickets)
        for ticket in blamed:
            ticket.losses += 1
            ticket.lost_at = ticket.answer.n_tokens
        self._suspects.update(ticket for ticket in blamed if ticket.losses >= _SUSPECT_LOSSES)
        most = self._rules.replays if len(blamed) == 1 else self._rules.most
        return [ticket for ticket in blamed if ticket.losses > most]

    def over(self, ticket: Ticket) -> None:
        """A request is over."""
        self._suspects.discard(ticket)

    @property
    def one_at_a_time(self) -> bool:
        """Whether requests are to run one at a time."""
        cleared = {one for one in self._suspects if one.answer.n_tokens >= one.lost_at + _CLEARED_TOKENS}
        self._suspects -= cleared
        return bool(self._suspects)
