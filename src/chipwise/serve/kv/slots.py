"""SlotPool: which sequence holds which KV slot."""

from __future__ import annotations

from dataclasses import dataclass

from chipwise.errors import InputError
from chipwise.serve.request.sequence import Sequence


@dataclass(frozen=True)
class Move:
    """The first ``tokens`` tokens of slot ``source`` are to be copied over slot ``target``."""

    source: int
    target: int
    tokens: int


class SlotPool:
    """Keeps the slots that decode side by side, from slot 0 on, since a Batch names a contiguous range.

    Behind them lies at most one that is entering (its tokens are being fed), then the free ones; those that are
    parked lie at the end, from the last slot down. A hole is filled with the outermost one of its kind; whoever calls
    copies the KV as the Moves say, in their order, before the next step.
    """

    def __init__(self, n_slots: int) -> None:
        if n_slots < 1:
            raise InputError(f"{n_slots} KV slots", remedy="serve with at least 1")
        self.n_slots = n_slots
        self.decoding: list[Sequence] = []
        """The sequences that decode; each one's index is its slot."""
        self.entering: Sequence | None = None
        self.parked: list[Sequence] = []
        """The sequences that keep their slot and do not run; the first holds the last slot."""

    @property
    def active(self) -> tuple[Sequence, ...]:
        """Those that run."""
        return (*self.decoding, self.entering) if self.entering else tuple(self.decoding)

    @property
    def holding(self) -> tuple[Sequence, ...]:
        """Those that hold a slot."""
        return (*self.active, *self.parked)

    @property
    def free(self) -> int:
        """Slots that nobody holds."""
        return self.n_slots - len(self.decoding) - (self.entering is not None) - len(self.parked)

    @property
    def free_slots(self) -> range:
        """The slots that nobody holds, but for one below an entering sequence."""
        first = len(self.decoding) if self.entering is None or self.entering.slot is None else self.entering.slot + 1
        return range(first, self.n_slots - len(self.parked))

    @property
    def can_enter(self) -> bool:
        """Whether a sequence may be given a slot now."""
        return self.entering is None and self.free > 0

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

    def can_park(self, sequence: Sequence) -> bool:
        """Whether a running sequence may be parked now: a slot is free, or it holds the one next to the parked."""
        return self.free > 0 or sequence.slot == self.n_slots - 1 - len(self.parked)

    def park(self, sequence: Sequence) -> list[Move]:
        """Let a running sequence keep its KV, but not run. Only while ``can_park``."""
        if not self.can_park(sequence):
            raise RuntimeError("no slot to park in")
        source = sequence.slot
        place = self.n_slots - 1 - len(self.parked)
        move = _move(sequence, place)
        moves = [move] if move else []
        if sequence is self.entering:
            self.entering = None
        else:
            moves += self._close(source)
        self.parked.append(sequence)
        return moves

    def can_resume(self, sequence: Sequence) -> bool:
        """Whether a parked sequence may run again now."""
        return self.entering is None and (self.free > 0 or sequence is self.parked[-1])

    def resume(self, sequence: Sequence) -> list[Move]:
        """Let a parked sequence run again: it decodes, or enters if tokens are left to feed.

        Only while ``can_resume``.
        """
        if not self.can_resume(sequence):
            raise RuntimeError("no slot to resume in")
        place = len(self.decoding)
        source, move = sequence.slot, _move(sequence, place)
        moves = [move] if move else []
        moves += self._close_parked(sequence, source)
        if sequence.remaining == 1:
            self.decoding.append(sequence)
        else:
            self.entering = sequence
        return moves

    def release(self, sequence: Sequence) -> list[Move]:
        """Take a sequence's slot back, and close the hole."""
        slot, sequence.slot = sequence.slot, None
        if slot is None:
            raise RuntimeError("the sequence holds no slot")
        if sequence is self.entering:
            self.entering = None
            return []
        if sequence in self.parked:
            return self._close_parked(sequence, slot)
        return self._close(slot)

    def _close(self, slot: int | None) -> list[Move]:
        """Fill the hole that a decoding sequence left with the last one that decodes."""
        if slot is None:
            raise RuntimeError("the sequence holds no slot")
        last = self.decoding.pop()
        if slot == len(self.decoding):
            return []
        self.decoding[slot] = last
        move = _move(last, slot)
        return [move] if move else []

    def _close_parked(self, sequence: Sequence, slot: int | None) -> list[Move]:
        """Fill the hole that a parked sequence left with the parked one in the lowest slot."""
        index = self.parked.index(sequence)
        lowest = self.parked.pop()
        if lowest is sequence or slot is None:
            return []
        self.parked[index] = lowest
        move = _move(lowest, slot)
        return [move] if move else []


def _move(sequence: Sequence, target: int) -> Move | None:
    source, sequence.slot = sequence.slot, target
    return None if source is None or source == target else Move(source, target, sequence.past)
