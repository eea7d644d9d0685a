from __future__ import annotations

import numpy as np
import pytest

from chipwise.errors import InputError
from chipwise.serve.kv.slots import Move, SlotPool
from chipwise.serve.request.request import Request
from chipwise.serve.request.sequence import Sequence
from chipwise.serve.text.sampling import SamplingParams


def sequence(past: int = 0) -> Sequence:
    return Sequence(Request("r", np.array([1]), 1, SamplingParams(), (), 0.0), past=past)


def pool_of(count: int, n_slots: int = 4) -> tuple[SlotPool, list[Sequence]]:
    """A pool in which ``count`` sequences decode, the i-th with 10 + i tokens."""
    pool, sequences = SlotPool(n_slots), [sequence(10 + i) for i in range(count)]
    for entering in sequences:
        pool.enter(entering)
        assert pool.start_decoding() is None
    return pool, sequences


def test_lowest_free_slot_is_given() -> None:
    pool, sequences = pool_of(3)
    assert [s.slot for s in sequences] == [0, 1, 2]
    assert pool.free == 1


def test_hole_is_closed_by_the_last() -> None:
    pool, (first, second, third) = pool_of(3)
    assert pool.release(first) == [Move(2, 0, 12)]
    assert (first.slot, second.slot, third.slot) == (None, 1, 0)
    assert pool.decoding == [third, second]


def test_last_leaves_without_a_move() -> None:
    pool, sequences = pool_of(3)
    assert pool.release(sequences[2]) == []
    assert pool.free == 2


def test_entering_sequence_follows_the_others_when_it_decodes() -> None:
    pool, sequences = pool_of(3)
    entering = sequence(7)
    pool.enter(entering)
    assert entering.slot == 3
    assert not pool.can_enter
    assert pool.release(sequences[1]) == [Move(2, 1, 12)]
    assert pool.start_decoding() == Move(3, 2, 7)
    assert pool.decoding == [sequences[0], sequences[2], entering]


def test_entering_sequence_may_leave() -> None:
    pool, _ = pool_of(1)
    entering = sequence()
    pool.enter(entering)
    assert pool.free == 2
    assert pool.release(entering) == []
    assert pool.free == 3
    assert pool.can_enter


def test_full_pool_takes_nobody() -> None:
    pool, _ = pool_of(2, n_slots=2)
    assert not pool.can_enter
    with pytest.raises(RuntimeError, match="no slot"):
        pool.enter(sequence())


def test_misuse_is_an_error() -> None:
    with pytest.raises(InputError, match="0 KV slots"):
        SlotPool(0)
    with pytest.raises(RuntimeError, match="nothing is entering"):
        SlotPool(1).start_decoding()
    with pytest.raises(RuntimeError, match="holds no slot"):
        SlotPool(1).release(sequence())


def test_parked_lie_at_the_end_and_keep_their_tokens() -> None:
    pool, (first, second, third) = pool_of(3, n_slots=5)
    assert pool.park(first) == [Move(0, 4, 10), Move(2, 0, 12)]
    assert pool.park(second) == [Move(1, 3, 11)]
    assert (third.slot, second.slot, first.slot) == (0, 3, 4)
    assert (pool.active, pool.free, list(pool.free_slots)) == ((third,), 2, [1, 2])
    first.known = first.past + 1
    assert pool.resume(first) == [Move(4, 1, 10), Move(3, 4, 11)]
    assert (pool.decoding, pool.parked, second.slot) == ([third, first], [second], 4)


def test_parked_in_the_middle_of_its_prompt_enters_again() -> None:
    pool, _ = pool_of(1, n_slots=3)
    entering = sequence(4)
    entering.known = 9
    pool.enter(entering)
    assert pool.park(entering) == [Move(1, 2, 4)]
    assert pool.can_enter
    assert pool.resume(entering) == [Move(2, 1, 4)]
    assert pool.entering is entering


def test_full_pool_parks_only_where_nothing_has_to_move() -> None:
    pool, sequences = pool_of(3, n_slots=3)
    assert [pool.can_park(s) for s in sequences] == [False, False, True]
    assert pool.park(sequences[2]) == []
    assert pool.free == 0
    assert pool.can_resume(sequences[2])
    with pytest.raises(RuntimeError, match="no slot to park"):
        pool.park(sequences[0])


def test_parked_may_leave() -> None:
    pool, (first, second, third) = pool_of(3, n_slots=6)
    pool.park(first)
    pool.park(second)
    assert pool.release(first) == [Move(4, 5, 11)]
    assert (pool.parked, pool.decoding, pool.free) == ([second], [third], 4)
