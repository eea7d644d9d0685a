from __future__ import annotations

import pytest

from chipwise.serve.schedule.step_cost import StepCost


def test_nothing_is_known_at_first() -> None:
    cost = StepCost()
    assert cost.predict_s("prefill", 10) is None
    assert cost.tokens_within(1.0, 1, 512) is None


def test_a_line_is_found() -> None:
    cost = StepCost()
    for size in (10, 50, 200):
        cost.learn("prefill", size, 0.02 + size / 1000)
    assert cost.predict_s("prefill", 100) == pytest.approx(0.12, rel=0.01)
    assert cost.tokens_within(0.12, 16, 512) in (99, 100, 101)
    assert cost.tokens_within(0.001, 16, 512) == 16
    assert cost.tokens_within(9.0, 16, 512) == 512
    assert cost.predict_s("decode", 1) is None


def test_one_size_gives_a_rate() -> None:
    cost = StepCost()
    for _ in range(5):
        cost.learn("prefill", 100, 0.5)
    assert cost.tokens_within(0.1, 1, 512) == 20


def test_it_follows_a_chip_that_slows_down_and_passes_over_a_hiccup() -> None:
    cost = StepCost()
    for i in range(40):
        cost.learn("decode", 1 + i % 4, 0.01 * (1 + i % 4))
    cost.learn("decode", 4, 5.0)
    after = cost.predict_s("decode", 4)
    assert after is not None
    assert after < 0.06
    for i in range(200):
        cost.learn("decode", 1 + i % 4, 0.02 * (1 + i % 4))
    assert cost.predict_s("decode", 4) == pytest.approx(0.08, rel=0.05)


def test_times_that_fall_with_the_size_are_taken_as_constant() -> None:
    cost = StepCost()
    cost.learn("prefill", 10, 0.2)
    cost.learn("prefill", 20, 0.1)
    assert cost.tokens_within(0.2, 16, 512) == 512
    assert cost.tokens_within(0.1, 16, 512) == 16


def test_a_session_that_takes_less_than_the_fewest_is_not_asked_for_more() -> None:
    cost = StepCost()
    cost.learn("prefill", 6, 6.0)
    assert cost.tokens_within(0.1, 16, 6) == 6
