"""KvContents: which tokens' KV lie in which slot, so that no prompt's beginning is computed twice."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as Several
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from chipwise.serve.kv.slots import Move
from chipwise.serve.request.sequence import Sequence

# Copying less is not worth the look at it.
_LEAST_TOKENS = 16
# KV that is about to be overwritten is kept, if a slot is free, when this many tokens of it lie nowhere else.
_WORTH_KEEPING_TOKENS = 64
# The last two tokens of a prompt are always fed: a step of one token takes an engine's other kernels.
_ALWAYS_FED_TOKENS = 2


@dataclass
class _Held:
    """What a slot holds: the first ``fed`` of these tokens, computed as a prompt is."""

    tokens: npt.NDArray[np.int64]
    fed: int
    used: int

    def common(self, tokens: npt.NDArray[np.int64]) -> int:
        """How many first tokens are the same. Tokens are compared, not digests: nothing else can ever match."""
        most = min(self.fed, len(tokens))
        differs = self.tokens[:most] != tokens[:most]
        return int(differs.argmax()) if differs.any() else most


class KvContents:
    """Remembers what slots hold, those in use and those left, and finds the longest beginning of a prompt among them.

    Only what was fed in steps of several tokens counts: what a decode step wrote rounds differently, and reuse must
    give the same bits as computing again.

    Args:
        n_slots: KV slots.
        least_tokens: The fewest tokens that are reused; None reuses nothing.
    """

    def __init__(self, n_slots: int, least_tokens: int | None = _LEAST_TOKENS) -> None:
        self._held: list[_Held | None] = [None] * n_slots
        self._least = None if least_tokens is None else max(least_tokens, _LEAST_TOKENS)
        self._clock = 0
        self.n_reused = 0

    def enter(self, sequence: Sequence, free: Several[int]) -> list[Move]:
        """A sequence gets a slot: its ``past`` is what need not be fed again.

        Args:
            sequence: The sequence, with its slot.
            free: The slots that nobody holds, its own among them or not.

        Returns:
            The copies this takes, in their order.
        """
        slot = sequence.slot
        if slot is None:
            raise RuntimeError("the sequence holds no slot")
        self._clock += 1
        source, reused = self._find(sequence.tokens[: sequence.read])
        if source is None:
            source = slot
        moves = self._keep(slot, reused if source == slot else 0, [s for s in free if s not in (slot, source)])
        if source != slot:
            moves.append(Move(source, slot, reused))
            if (held := self._held[source]) is not None:
                held.used = self._clock
        self._held[slot] = _Held(sequence.tokens, reused, self._clock)
        sequence.past = reused
        self.n_reused += reused
        return moves

    def fed(self, sequence: Sequence, start: int, tokens: int) -> None:
        """A sequence was fed tokens ``start ..`` of its own in one step."""
        held = self._of(sequence)
        if held is not None and tokens > 1 and held.fed == start:
            held.fed = start + tokens

    def moved(self, moves: Iterable[Move]) -> None:
        """Slots were copied."""
        for move in moves:
            held = self._held[move.source]
            self._held[move.target] = held and _Held(held.tokens, min(held.fed, move.tokens), held.used)

    def spoiled(self, slots: Iterable[int]) -> None:
        """These slots hold nothing defined."""
        for slot in slots:
            self._held[slot] = None

    def prompts(self) -> list[tuple[int, npt.NDArray[np.int64]]]:
        """What is worth keeping beyond the process: slots and the tokens fed to them, the last used first.

        One that another one begins with is not among them.
        """
        found: list[tuple[int, _Held]] = []
        by_length = [(slot, held) for slot, held in enumerate(self._held) if held and held.fed >= _WORTH_KEEPING_TOKENS]
        for slot, held in sorted(by_length, key=lambda one: -one[1].fed):
            if all(other.common(held.tokens[: held.fed]) < held.fed for _, other in found):
                found.append((slot, held))
        found.sort(key=lambda one: -one[1].used)
        return [(slot, held.tokens[: held.fed]) for slot, held in found]

    def put(self, slot: int, tokens: npt.NDArray[np.int64]) -> None:
        """A slot that nobody holds was filled with the KV of a prompt."""
        self._clock += 1
        self._held[slot] = _Held(tokens, len(tokens), self._clock)

    def forget(self) -> None:
        """No slot holds anything defined."""
        self._held = [None] * len(self._held)

    def _of(self, sequence: Sequence) -> _Held | None:
        return None if sequence.slot is None else self._held[sequence.slot]

    def _find(self, tokens: npt.NDArray[np.int64]) -> tuple[int | None, int]:
        """The slot that holds most of the beginning, and how many tokens of it; None and 0 if it is not worth it."""
        if self._least is None:
            return None, 0
        found = [(0 if held is None else held.common(tokens), slot) for slot, held in enumerate(self._held)]
        reused, slot = max(found)
        reused = min(reused, len(tokens) - _ALWAYS_FED_TOKENS)
        return (slot, reused) if reused >= self._least else (None, 0)

    def _keep(self, slot: int, reused: int, free: Several[int]) -> list[Move]:
        """Copy what will be overwritten to the free slot that was not used for longest, if it is worth it."""
        held = self._held[slot]
        if self._least is None or held is None or held.fed - reused < _WORTH_KEEPING_TOKENS or not free:
            return []
        others = (other for place, other in enumerate(self._held) if other is not None and place != slot)
        if any(other.common(held.tokens[: held.fed]) > held.fed - _WORTH_KEEPING_TOKENS for other in others):
            return []
        oldest = min(free, key=lambda place: -1 if (one := self._held[place]) is None else one.used)
        move = Move(slot, oldest, held.fed)
        self.moved([move])
        return [move]
