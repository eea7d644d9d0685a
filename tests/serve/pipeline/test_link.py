from __future__ import annotations

import itertools

from chipwise.serve.pipeline.job import Job
from chipwise.serve.pipeline.link import Link


def job(value: str) -> Job:
    return Job(value, lambda outcome: None)


def test_a_place_is_free_again_only_when_it_was_read() -> None:
    numbers = itertools.count()
    link = Link(2, lambda: next(numbers))
    first, second = job("a"), job("b")
    one, two = link.reserve(), link.reserve()
    assert (one.buffer, two.buffer, link.n_free, link.n_full) == (0, 1, 0, 0)
    link.put(first, one)
    link.put(second, two)
    assert link.take() is first
    assert (link.n_free, link.n_full) == (0, 1)
    link.release(one)
    assert link.reserve() is one


def test_what_waits_can_be_taken_out_and_what_is_read_cannot() -> None:
    link = Link(2, lambda: None)
    first, second = job("a"), job("b")
    for one in (first, second):
        link.put(one, link.reserve())
    assert link.take() is first
    assert not link.remove(first)
    assert link.remove(second)
    assert not link.remove(second)
    assert (link.n_free, link.n_full) == (1, 0)
