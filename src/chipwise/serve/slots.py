"""SlotPool: which sequence holds which KV slot."""

from __future__ import annotations

from dataclasses import dataclass

from chipwise.errors import InputError
from chipwise.serve.sequence import Sequence


@dataclass(frozen=True)
class Move:
    """The first ``tokens`` tokens of slot ``source`` are to be copied over slot ``target``."""

    source: int
    target: int
    tokens: int


class SlotPool:
    """Keeps the slots that decode side by side, from slot 0 on, since a Batch names a contiguous range.

    At most one sequence at a time is entering (its prompt is being fed) and lies behind them. A slot given back is
    filled with the last one that decodes; whoever calls copies the KV as the Move says before the next step.
    """

    def __init__(self, n_slots: int) -> None:
        if n_slots < 1:
            raise InputError(f"{n_slots} KV slots", remedy="serve with at least 1")
        self.n_slots = n_slots
        self.decoding: list[Sequence] = []
        """The sequences that decode; each one's index is its slot."""
        self.entering: Sequence | None = None

    @property
    def free(self) -> int:
        """Slots that nobody holds."""
        return self.n_slots - len(self.decoding) - (self.entering is not None)

    @property
    def can_enter(self) -> bool:
        """Whether a sequence may be given a slot now."""
        return self.entering is None and len(self.decoding) < self.n_slots

    def enter(self, sequence: Sequence) -> None:
        """Give the lowest free slot to a sequence. Only while ``can_enter``."""
        if not self.can_enter:
            raise RuntimeError("no slot to enter")
        sequence.slot = len(self.decoding)
        self.entering = sequence

    def start_decoding(self) -> Move | None:
        """Let the entering sequence decode, next to the others."""
        sequence, self.entering = self.entering, None
        if sequence is None:
            raise RuntimeError("nothing is entering")
        target = len(self.decoding)
        self.decoding.append(sequence)
        return _move(sequence, target)

    def release(self, sequence: Sequence) -> Move | None:
        """Take a sequence's slot back, and close the hole."""
        slot, sequence.slot = sequence.slot, None
        if slot is None:
            raise RuntimeError("the sequence holds no slot")
        if sequence is self.entering:
            self.entering = None
            return None
        last = self.decoding.pop()
        if last is sequence:
            return None
        self.decoding[slot] = last
        return _move(last, slot)


def _move(sequence: Sequence, target: int) -> Move | None:
    source, sequence.slot = sequence.slot, target
    return None if source is None or source == target else Move(source, target, sequence.past)
