"""SharedPrefix: what prompts have in common is read once and copied from slot to slot."""

from __future__ import annotations

from collections.abc import Sequence

from chipwise.engine import Session

# Copying fewer tokens than this saves less than its call costs.
_SHORTEST = 16


class SharedPrefix:
    """Places the beginning of prompts that slot 0 holds into other slots.

    Prompts of one model mostly begin alike: with the system text of its chat template.

    Args:
        sessions: Sessions that are taken through the same steps.
    """

    def __init__(self, sessions: Sequence[Session]) -> None:
        self._sessions = tuple(sessions)
        self._held: tuple[int, ...] = ()

    def place(self, slot: int, tokens: Sequence[int], *, whole: bool = False) -> int:
        """Make a slot ready for a prompt, of which at least the last token is left to feed.

        Slot 0 must get its prompt before the others, and what is fed there afterwards must lie behind the prompt.

        Args:
            slot: The slot.
            tokens: The prompt.
            whole: Whether all of it shall be fed.

        Returns:
            How many of its first tokens the slot holds.
        """
        shared = 0 if whole else _common(self._held, tokens)
        if shared < _SHORTEST:
            shared = 0
        elif slot:
            for session in self._sessions:
                session.move_slot(0, slot, shared)
        if slot == 0:
            self._held = tuple(tokens)
        return shared


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """Length of the common beginning, one token less than ``other`` at most."""
    pairs = zip(one, other[:-1], strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(one), max(0, len(other) - 1)))
