from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chipwise.verify.certainty.decision import Decision, decide_loss, decide_share

SURE = Decision(sure=True)


def loss(broke: int, fixed: int, cases: int, most: float = 0.03) -> Decision:
    return decide_loss(broke, fixed, cases, most, 0.05, fail_alpha=0.05)


def test_nothing_broken_passes_from_the_cases_on_that_show_it() -> None:
    # z squared over n and z squared, one-sided: 2.71 / (n + 2.71) <= 0.03 from 88 cases on.
    assert loss(0, 0, 88) == SURE
    assert loss(0, 0, 87) == Decision(sure=False, more_cases=1)
    assert loss(0, 0, 20) == Decision(sure=False, more_cases=68)


def test_a_loss_beyond_the_limit_fails_if_it_is_no_accident() -> None:
    assert loss(8, 0, 100) == SURE
    assert loss(4, 0, 100) == SURE
    assert not loss(5, 3, 40).sure
    assert not loss(1, 0, 10).sure
    assert (loss(5, 3, 40).more_cases or 0) > 0


def test_a_loss_at_the_limit_is_never_sure() -> None:
    assert loss(3, 0, 100) == Decision(sure=False)


def test_a_share() -> None:
    assert decide_share(100, 100, 0.9, 0.05) == SURE
    assert decide_share(20, 20, 0.9, 0.05) == Decision(sure=False, more_cases=5)
    assert decide_share(70, 100, 0.9, 0.05) == SURE
    assert not decide_share(88, 100, 0.9, 0.05).sure
    assert decide_share(90, 100, 0.9, 0.05) == Decision(sure=False)


@pytest.mark.parametrize("most", [0.0, 1.0])
def test_where_no_number_of_cases_could_show_it_the_measured_value_decides(most: float) -> None:
    assert loss(0, 0, 5, most) == SURE
    assert decide_share(5, 5, 1 - most, 0.05) == SURE


def test_without_certainty_the_measured_value_decides() -> None:
    assert decide_loss(1, 0, 10, 0.03, 1.0, fail_alpha=1.0) == SURE
    assert decide_share(1, 10, 0.9, 1.0) == SURE


def test_no_cases_are_not_enough() -> None:
    assert loss(0, 0, 0) == Decision(sure=False)
    assert decide_share(0, 0, 0.9, 0.05) == Decision(sure=False)


@given(st.integers(1, 300), st.floats(0.005, 0.2))
def test_as_many_more_cases_as_are_asked_for_are_enough_and_one_less_is_not(cases: int, most: float) -> None:
    more = loss(0, 0, cases, most).more_cases
    if more is None:
        assert loss(0, 0, cases, most) == SURE
    else:
        assert loss(0, 0, cases + more, most) == SURE
        assert loss(0, 0, cases + more - 1, most) != SURE
