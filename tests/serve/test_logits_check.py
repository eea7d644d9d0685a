from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from chipwise.serve.logits_check import SYMPTOMS, WORDS, NumericFault, faulty_rows

FAULTS: dict[NumericFault, float] = {"nan": np.nan, "infinite": -np.inf, "zeros": 0.0, "equal": -3.5}


def rows(n: int, vocab: int = 1000) -> np.ndarray:
    return np.random.default_rng(n).normal(size=(n, vocab)).astype(np.float32)


def test_sound_logits_pass() -> None:
    assert faulty_rows(rows(5)) == {}


@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("bad", [0, 2])
def test_a_whole_row(kind: NumericFault, bad: int) -> None:
    logits = rows(3)
    logits[bad] = FAULTS[kind]
    assert faulty_rows(logits) == {bad: kind}


@pytest.mark.parametrize(("value", "kind"), [(np.nan, "nan"), (np.inf, "infinite"), (-np.inf, "infinite")])
@pytest.mark.parametrize("at", [0, 500, 999])
def test_a_single_logit(value: float, kind: NumericFault, at: int) -> None:
    logits = rows(2)
    logits[1, at] = value
    assert faulty_rows(logits) == {1: kind}


def test_rows_are_told_apart_and_negative_zero_is_zero() -> None:
    logits = rows(5)
    logits[0, 3], logits[1, 3], logits[2], logits[3] = np.nan, np.inf, -0.0, 7
    assert faulty_rows(logits) == {0: "nan", 1: "infinite", 2: "zeros", 3: "equal"}


def test_the_ends_of_float32_are_numbers() -> None:
    limit = np.finfo(np.float32).max
    assert faulty_rows(np.array([[limit, -limit]], np.float32)) == {}


def test_a_vocabulary_of_one_is_never_equal() -> None:
    assert faulty_rows(np.array([[2.0]], np.float32)) == {}


@given(hnp.arrays(np.float32, st.tuples(st.integers(1, 4), st.integers(2, 9)), elements=st.floats(width=32)))
def test_it_says_what_a_slow_look_says(logits: np.ndarray) -> None:
    found = faulty_rows(logits)
    for row, values in enumerate(logits):
        if np.isnan(values).any():
            wanted = "nan"
        elif np.isinf(values).any():
            wanted = "infinite"
        elif not values.any():
            wanted = "zeros"
        else:
            wanted = "equal" if len(set(values.tolist())) == 1 else None
        assert found.get(row) == wanted


def test_each_kind_has_words_and_a_symptom() -> None:
    assert set(SYMPTOMS) == set(WORDS) == set(FAULTS)
