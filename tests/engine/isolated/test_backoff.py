from __future__ import annotations

from chipwise.engine.isolated.backoff import Backoff, BackoffRules


def test_waits_grow_to_a_limit_and_calm_ends_the_row() -> None:
    backoff = Backoff(BackoffRules(first_s=0.5, growth=2, longest_s=3, calm_s=60))
    assert [backoff.wait_s(0) for _ in range(6)] == [0, 0.5, 1, 2, 3, 3]
    assert backoff.wait_s(59) == 3
    assert [backoff.wait_s(60), backoff.wait_s(1)] == [0, 0.5]


def test_a_thousand_troubles_overflow_nothing() -> None:
    backoff = Backoff()
    assert [backoff.wait_s(0) for _ in range(1000)][-1] == BackoffRules().longest_s
