from __future__ import annotations

import numpy as np

from chipwise.serve.kv.kv_contents import KvContents
from chipwise.serve.kv.slots import Move
from chipwise.serve.request.request import Request
from chipwise.serve.request.sequence import Sequence
from chipwise.serve.text.sampling import SamplingParams


def sequence(*parts: range, slot: int = 0) -> Sequence:
    prompt = np.concatenate([np.asarray(part, np.int64) for part in parts])
    return Sequence(Request("r", prompt, 8, SamplingParams(), (), 0.0), slot=slot)


def served(contents: KvContents, one: Sequence, free: range = range(0)) -> list[Move]:
    """Let a sequence enter and have its prompt fed in one step."""
    moves = contents.enter(one, free)
    contents.fed(one, one.past, one.remaining)
    one.past = one.known
    return moves


SYSTEM = range(1000, 1100)


def test_the_common_beginning_is_not_fed_again() -> None:
    contents = KvContents(1)
    served(contents, sequence(SYSTEM, range(10)))
    second = sequence(SYSTEM, range(50, 70))
    assert contents.enter(second, range(0)) == []
    assert (second.past, contents.n_reused) == (100, 100)


def test_it_is_copied_from_whichever_slot_holds_most_of_it() -> None:
    contents = KvContents(3)
    served(contents, sequence(SYSTEM[:40], range(9), slot=0))
    served(contents, sequence(SYSTEM[:80], range(9), slot=1))
    third = sequence(SYSTEM, slot=2)
    assert contents.enter(third, range(2, 3)) == [Move(1, 2, 80)]
    assert third.past == 80


def test_the_last_two_tokens_are_always_fed() -> None:
    contents = KvContents(1)
    served(contents, sequence(SYSTEM))
    same = sequence(SYSTEM)
    contents.enter(same, range(0))
    assert same.past == 98


def test_little_is_not_worth_it_and_other_beginnings_never_match() -> None:
    contents = KvContents(1)
    served(contents, sequence(SYSTEM))
    for parts in ((SYSTEM[:15], range(20)), (range(1), SYSTEM)):
        other = sequence(*parts)
        contents.enter(other, range(0))
        assert other.past == 0
        contents = KvContents(1)
        served(contents, sequence(SYSTEM))


def test_reuse_may_be_off_or_need_more() -> None:
    for least, past in ((None, 0), (101, 0), (100, 100)):
        contents = KvContents(1, least)
        served(contents, sequence(SYSTEM, range(10)))
        second = sequence(SYSTEM, range(50, 70))
        contents.enter(second, range(0))
        assert second.past == past


def test_what_decode_steps_wrote_is_not_taken_over() -> None:
    contents = KvContents(1)
    first = sequence(SYSTEM[:50])
    served(contents, first)
    for token in SYSTEM[50:58]:
        first.append(token)
        contents.fed(first, first.past, 1)
        first.past += 1
    second = sequence(SYSTEM)
    contents.enter(second, range(0))
    assert second.past == 50


def test_what_a_failed_step_left_is_not_taken_over() -> None:
    contents = KvContents(2)
    served(contents, sequence(SYSTEM, slot=1))
    contents.spoiled([1])
    second = sequence(SYSTEM, slot=0)
    contents.enter(second, range(0))
    assert second.past == 0


def test_a_copy_carries_what_it_copies() -> None:
    contents = KvContents(2)
    served(contents, sequence(SYSTEM, slot=0))
    contents.moved([Move(0, 1, 30)])
    contents.spoiled([0])
    second = sequence(SYSTEM, slot=0)
    assert contents.enter(second, range(0)) == [Move(1, 0, 30)]


def test_beginnings_that_take_turns_in_a_slot_are_kept_in_the_free_ones() -> None:
    contents, free = KvContents(3), range(3)
    other = range(2000, 2100)
    assert served(contents, sequence(SYSTEM, range(5)), free) == []
    assert served(contents, sequence(other, range(5)), free) == [Move(0, 1, 105)]
    again = sequence(SYSTEM, range(20, 30))
    # The other one is kept as well, and this one comes back.
    assert contents.enter(again, free) == [Move(0, 2, 105), Move(1, 0, 100)]
    assert again.past == 100


def test_only_the_oldest_is_given_up_for_it() -> None:
    contents, free = KvContents(3), range(3)
    kinds = [range(1000 * i, 1000 * i + 100) for i in range(1, 5)]
    moves = [served(contents, sequence(kind, range(5)), free) for kind in kinds]
    assert moves == [[], [Move(0, 1, 105)], [Move(0, 2, 105)], [Move(0, 1, 105)]]
