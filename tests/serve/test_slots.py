from __future__ import annotations

import numpy as np
import pytest

from chipwise.errors import InputError
from chipwise.serve.request import Request
from chipwise.serve.sampling import SamplingParams
from chipwise.serve.sequence import Sequence
from chipwise.serve.slots import Move, SlotPool


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
    assert pool.release(first) == Move(2, 0, 12)
    assert (first.slot, second.slot, third.slot) == (None, 1, 0)
    assert pool.decoding == [third, second]


def test_last_leaves_without_a_move() -> None:
    pool, sequences = pool_of(3)
    assert pool.release(sequences[2]) is None
    assert pool.free == 2


def test_entering_sequence_follows_the_others_when_it_decodes() -> None:
    pool, sequences = pool_of(3)
    entering = sequence(7)
    pool.enter(entering)
    assert entering.slot == 3
    assert not pool.can_enter
    assert pool.release(sequences[1]) == Move(2, 1, 12)
    assert pool.start_decoding() == Move(3, 2, 7)
    assert pool.decoding == [sequences[0], sequences[2], entering]


def test_entering_sequence_may_leave() -> None:
    pool, _ = pool_of(1)
    entering = sequence()
    pool.enter(entering)
    assert pool.free == 2
    assert pool.release(entering) is None
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
