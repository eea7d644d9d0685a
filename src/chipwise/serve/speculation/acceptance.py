"""Acceptance: how often guesses are right, learned from those that were checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from chipwise.serve.speculation.draft import Draft, Hint

# What is assumed of a token whose predecessors were right before anything was seen, and for how many tokens it counts.
_ASSUMED: Mapping[Hint, float] = {"grammar": 0.9, "long": 0.8, "middle": 0.6, "short": 0.4}
_ASSUMED_WEIGHT = 4.0
# After so many others a checked token weighs half: within one answer, and over all of them.
_HALF_LIFE_ANSWER, _HALF_LIFE_ALL = 10, 200


@dataclass
class _Share:
    right: float = 0.0
    checked: float = 0.0


class Acceptance:
    """The share of guessed tokens that were right, by where they came from, among those whose predecessors were.

    Args:
        wider: What is known from others, before and beside this one's own; None if this one is over all.
    """

    def __init__(self, wider: Acceptance | None = None) -> None:
        self._wider = wider
        self._decay = 0.5 ** (1 / (_HALF_LIFE_ALL if wider is None else _HALF_LIFE_ANSWER))
        self._shares: dict[Hint, _Share] = {hint: _Share() for hint in _ASSUMED}

    def share(self, hint: Hint) -> float:
        """How likely a token from there is right if its predecessors are, 0 to 1."""
        share = self._shares[hint]
        assumed = _ASSUMED[hint] if self._wider is None else self._wider.share(hint)
        return (share.right + _ASSUMED_WEIGHT * assumed) / (share.checked + _ASSUMED_WEIGHT)

    def expected(self, draft: Draft) -> list[float]:
        """How many tokens of a draft's first 1, 2, ... are right on average."""
        found: list[float] = []
        total, chain = 0.0, 1.0
        for hint in draft.hints:
            chain *= self.share(hint)
            total += chain
            found.append(total)
        return found

    def learn(self, draft: Draft, right: int) -> None:
        """A draft was checked: so many of its first tokens were right, and the next one, if there is one, was not."""
        for i, hint in enumerate(draft.hints[: right + 1]):
            share = self._shares[hint]
            share.right = share.right * self._decay + (i < right)
            share.checked = share.checked * self._decay + 1
        if self._wider is not None:
            self._wider.learn(draft, right)
