"""Drafter: guesses how one answer goes on."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from chipwise.errors import EngineError
from chipwise.serve.speculation.acceptance import Acceptance
from chipwise.serve.speculation.draft import NO_DRAFT, Draft, Hint
from chipwise.serve.speculation.earlier_answers import NOTHING
from chipwise.serve.speculation.forced_text import ForcedText
from chipwise.serve.speculation.lookup import look_up
from chipwise.serve.text.grammar import GrammarState

# Forced text and look-ups take turns; nothing useful comes of more turns.
_TURNS = 6


class Drafter:
    """Guesses from the grammar, where it forces what comes, and else from what came before, here or in another answer.

    It belongs to an answer, not to a slot: who gives way keeps it.

    Attributes:
        acceptance: How often its guesses were right.
        until_probe: Tokens that are to be said before it may guess again although it does not pay.
        probe_gap: How many those were the last time.
        least_gap: How many they are the next time at least.
    """

    def __init__(
        self,
        acceptance: Acceptance,
        constraint: GrammarState | None,
        forced: ForcedText,
        earlier: npt.NDArray[np.int64] = NOTHING,
    ) -> None:
        """The answer's grammar, if it has one, and tokens of an answer like it."""
        self.acceptance = acceptance
        self.until_probe = self.probe_gap = self.least_gap = 0
        self._constraint = constraint
        self._forced = forced
        self._earlier = earlier

    def draft(self, said: npt.NDArray[np.int64], most: int) -> Draft:
        """A guess of what comes next.

        Args:
            said: Token ids of the prompt and the answer so far, int64 ``[n]``.
            most: The most tokens to give.
        """
        if most < 1:
            return NO_DRAFT
        if self._constraint is None:
            return look_up(said, most)
        try:
            return self._within_grammar(said, most, self._constraint)
        except EngineError:
            # Whatever is wrong with the grammar is told when the next token is chosen.
            return NO_DRAFT

    def _within_grammar(self, said: npt.NDArray[np.int64], most: int, state: GrammarState) -> Draft:
        tokens: list[int] = []
        hints: list[Hint] = []
        for _ in range(_TURNS):
            text = np.concatenate([said, np.array(tokens, np.int64)])
            left = most - len(tokens)
            more = self._forced.tokens(text, state)[:left]
            hints += ["grammar"] * len(more)
            if not more:
                found = look_up(np.concatenate([self._earlier, text]), left)
                count = state.count_valid(found.tokens)
                more = list(found.tokens[:count])
                hints += found.hints[:count]
            tokens += more
            if not more or len(tokens) == most:
                break
            state = state.after(more)
            if state.complete:
                break
        return Draft(tuple(tokens), tuple(hints))
