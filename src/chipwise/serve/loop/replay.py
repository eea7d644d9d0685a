"""Replay: which requests are tried again when the engine was lost, and which one it was that killed it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from chipwise.serve.loop.ticket import Ticket
from chipwise.serve.request.limits import Limits

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

    The first loss may be chance: all go on together. Those that were in the step of a second one are suspects: each
    runs alone until it got well beyond where the engine was lost, so the next loss names one request, not several.
    """

    def __init__(self, rules: ReplayRules | None = None) -> None:
        self._rules = rules or ReplayRules()
        self._suspects: list[Ticket] = []

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
            if ticket.losses >= _SUSPECT_LOSSES and ticket not in self._suspects:
                self._suspects.append(ticket)
        most = self._rules.replays if len(blamed) == 1 else self._rules.most
        return [ticket for ticket in blamed if ticket.losses > most]

    def over(self, ticket: Ticket) -> None:
        """A request is over."""
        if ticket in self._suspects:
            self._suspects.remove(ticket)

    def limited(self, limits: Limits) -> Limits:
        """The limits, with the suspect that is to run alone now."""
        if not self._suspects:
            return limits
        self._suspects = [one for one in self._suspects if one.answer.n_tokens < one.lost_at + _CLEARED_TOKENS]
        # One that is turned away by the hardware's limits keeps nobody waiting.
        may_run = [one.sequence for one in self._suspects if not limits.sheds(one.sequence.request.priority)]
        return replace(limits, only=may_run[0]) if may_run else limits
