"""Roster: who runs, who is parked and who waits, rearranged before every step."""

from __future__ import annotations

from collections.abc import Sequence as Several
from typing import Final

from chipwise.serve.kv.kv_contents import KvContents
from chipwise.serve.kv.slots import Move, SlotPool
from chipwise.serve.request.limits import Limits
from chipwise.serve.request.priority import Priority
from chipwise.serve.request.sequence import Sequence
from chipwise.serve.schedule.ageing import Ageing
from chipwise.serve.schedule.fair_shares import FairShares
from chipwise.serve.schedule.waiting_room import WaitingRoom


class Roster:
    """Gives places to the most urgent, and takes them from the least.

    Args:
        n_slots: KV slots. Those beyond ``max_running`` are for the parked.
        room: Those that wait without a slot.
        shares: What clients were served.
        ageing: How waiting raises a request.
        max_running: The most that run at once; None for ``n_slots``.
        reserved: How many of them only EMERGENCY and INTERACTIVE requests may be.
        least_reused: The fewest tokens of KV that are reused; None reuses nothing.
    """

    def __init__(
        self,
        n_slots: int,
        room: WaitingRoom,
        shares: FairShares,
        ageing: Ageing,
        max_running: int | None,
        reserved: int,
        least_reused: int | None,
    ) -> None:
        self.pool = SlotPool(n_slots)
        self.contents = KvContents(n_slots, least_reused)
        self._room = room
        self._shares = shares
        self._ageing = ageing
        self.max_running: Final = min(max_running or n_slots, n_slots)
        self._reserved = reserved
        self.n_parkings = self.n_evictions = 0
        self._moves: list[Move] = []

    def places(self, sequence: Sequence, limits: Limits) -> int:
        """How many like this one could run, if nobody else did."""
        most = self._most(limits)
        return most if _urgent(sequence) else self._max_ordinary(most)

    def free_places(self, sequence: Sequence, limits: Limits) -> int:
        """How many more like this one could run now: in empty places, and in those of the less urgent."""
        priority, active = sequence.request.priority, self.pool.active
        staying = [one for one in active if self._ageing.running_level(one) <= priority]
        free = self._most(limits) - len(staying)
        if not _urgent(sequence):
            free = min(free, self.places(sequence, limits) - sum(not _urgent(one) for one in staying))
        return max(0, min(free, self.pool.free + len(self.pool.parked) + len(active) - len(staying)))

    def arrange(self, now_s: float, limits: Limits) -> list[Move]:
        """Let those run who should; the moves this takes."""
        self._moves = []
        for sequence in [one for one in self.pool.holding if one.turned]:
            self._let_go(sequence)
        most = self._most(limits)
        for sequence in self.pool.active if limits.only is not None else ():
            if sequence is not limits.only:
                self._displace(sequence, now_s)
        while len(self.pool.active) > most:
            self._displace(self._least_urgent(self.pool.active, now_s), now_s)
        # Each round lets one in; one that enters has its tokens to be fed first.
        while self._let_in(now_s, limits, most):
            pass
        return self._moves

    def _let_in(self, now_s: float, limits: Limits, most: int) -> bool:
        waiting = [s for s in (*self.pool.parked, *self._room) if not limits.sheds(s.request.priority)]
        if limits.only is not None:
            waiting = [limits.only] if limits.only in waiting else []
        if not waiting:
            return False
        best = min(waiting, key=lambda s: self._ageing.rank(s, now_s, self._shares.served(s.request.client)))
        level = self._ageing.waiting_level(best, now_s)
        entering, rivals = self.pool.entering, self._rivals(best, most)
        # One at a time is on its way in: only it can be displaced then.
        victim = entering if entering else self._least_urgent(rivals, now_s) if rivals else None
        if victim is not None:
            if level >= self._ageing.running_level(victim):
                return False
            self._displace(victim, now_s, best)
        self._start(best, level, now_s)
        return True

    def _rivals(self, sequence: Sequence, most: int) -> Several[Sequence] | None:
        """Those of whom one has to leave before this one can run; None if there is a place."""
        active = self.pool.active
        if len(active) >= most:
            return active
        if not _urgent(sequence):
            ordinary = [one for one in active if not _urgent(one)]
            if len(ordinary) >= self._max_ordinary(most):
                return ordinary
        return None

    def _most(self, limits: Limits) -> int:
        return self.max_running if limits.max_batch is None else max(1, min(limits.max_batch, self.max_running))

    def _max_ordinary(self, most: int) -> int:
        # Reserved places go first when the hardware takes some away from all, but for the last.
        return max(1, min(most, self.max_running - self._reserved))

    def start_decoding(self) -> list[Move]:
        """The one that enters has its tokens in."""
        move = self.pool.start_decoding()
        return self._noted([move] if move else [])

    def leave(self, sequence: Sequence) -> list[Move]:
        """One that holds a slot is over."""
        return self._noted(self.pool.release(sequence))

    def _do(self, moves: list[Move]) -> None:
        self._moves += self._noted(moves)

    def _noted(self, moves: list[Move]) -> list[Move]:
        self.contents.moved(moves)
        return moves

    def _start(self, best: Sequence, level: Priority, now_s: float) -> None:
        """Let one run, which there is a place for. Nobody is entering."""
        pool = self.pool
        if best.started_s is not None:
            best.note("resumed", now_s)
        if best.slot is not None:
            if not pool.can_resume(best):
                self._evict(pool.parked[-1], now_s)
            self._do(pool.resume(best))
        else:
            if not pool.free:
                self._evict(self._least_urgent(pool.parked, now_s), now_s)
            self._room.remove(best)
            pool.enter(best)
            # The contents know of these copies already.
            self._moves += self.contents.enter(best, range(len(pool.decoding), pool.n_slots - len(pool.parked)))
            if best.started_s is None:
                best.started_s, best.cached = now_s, best.past
        best.level, best.level_until = level, best.known + self._ageing.slice_tokens

    def _displace(self, victim: Sequence, now_s: float, best: Sequence | None = None) -> None:
        """Take a running one's place, for ``best`` or for nobody. It keeps its KV if a slot is left for it."""
        pool = self.pool
        needs_slot = best is not None and best.slot is None
        if victim.past and not pool.free and needs_slot:
            # Somebody's KV goes: that of the least urgent, whether it runs or not.
            loser = self._least_urgent((*(one for one in pool.parked if one is not best), victim), now_s)
            if loser is not victim:
                self._evict(loser, now_s)
        if victim.past and pool.can_park(victim) and (pool.free or not needs_slot):
            self._do(pool.park(victim))
            victim.since_s = now_s
            victim.note("parked", now_s)
            self.n_parkings += 1
        else:
            self._evict(victim, now_s)

    def _evict(self, victim: Sequence, now_s: float) -> None:
        """Take a sequence's slot and KV: it waits, and all its tokens are fed again."""
        if victim not in self.pool.parked:
            victim.since_s = now_s
        victim.note("evicted", now_s)
        self.n_evictions += 1
        self._let_go(victim)

    def _let_go(self, sequence: Sequence) -> None:
        self._do(self.pool.release(sequence))
        sequence.past, sequence.turned = 0, False
        self._room.put_back(sequence)

    def _least_urgent(self, sequences: Several[Sequence], now_s: float) -> Sequence:
        """The least urgent; of equals one of the client that was served most, and of these the last that came."""

        def urgency(sequence: Sequence) -> tuple[Priority, float, int]:
            waits = sequence in self.pool.parked
            level = self._ageing.waiting_level(sequence, now_s) if waits else self._ageing.running_level(sequence)
            return level, self._shares.served(sequence.request.client), sequence.serial

        return max(sequences, key=urgency)


def _urgent(sequence: Sequence) -> bool:
    return sequence.request.priority <= Priority.INTERACTIVE
