from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from chipwise.serve.faults.logits_check import SYMPTOMS, WORDS, NumericFault, check_logits

FAULTS: dict[NumericFault, float] = {"nan": np.nan, "infinite": -np.inf, "zeros": 0.0, "equal": -3.5}
SPOTS: dict[NumericFault, tuple[float, ...]] = {"nan": (np.nan, -np.nan), "infinite": (np.inf, -np.inf)}
FINITE = st.floats(width=32, allow_nan=False, allow_infinity=False)


def rows(n: int, vocab: int = 1000) -> np.ndarray:
    return np.random.default_rng(n).normal(size=(n, vocab)).astype(np.float32)


def slow_look(values: np.ndarray) -> NumericFault | None:
    """The same by the plain words of what a fault is."""
    numbers = values.tolist()
    if any(math.isnan(number) for number in numbers):
        return "nan"
    if any(math.isinf(number) for number in numbers):
        return "infinite"
    if not any(numbers):
        return "zeros"
    return "equal" if len(numbers) > 1 and len(set(numbers)) == 1 else None


def test_sound_logits_pass_and_their_likeliest_tokens_are_told() -> None:
    logits = rows(5)
    assert check_logits(logits) == ([int(np.flatnonzero(row == row.max())[0]) for row in logits], {})


@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("bad", [0, 2])
def test_a_whole_row(kind: NumericFault, bad: int) -> None:
    logits = rows(3)
    logits[bad] = FAULTS[kind]
    assert check_logits(logits)[1] == {bad: kind}


@given(st.data())
def test_a_single_logit_of_any_row_at_any_place(data: st.DataObject) -> None:
    # As long as real vocabularies are, so that it meets each lane of the processor's vectors, and what is left behind.
    n, vocab = data.draw(st.integers(1, 9)), data.draw(st.sampled_from([2, 7, 64, 333, 1536, 2049, 49152]))
    logits = rows(n, vocab)
    bad, at = data.draw(st.integers(0, n - 1)), data.draw(st.integers(0, vocab - 1))
    kind = data.draw(st.sampled_from(sorted(SPOTS)))
    logits[bad, at] = data.draw(st.sampled_from(SPOTS[kind]))
    best, faults = check_logits(logits)
    assert faults == {bad: kind}
    assert [best[row] for row in range(n) if row != bad] == [
        int(logits[row].argmax()) for row in range(n) if row != bad
    ]


@given(st.data(), FINITE)
def test_a_row_of_one_number_and_one_that_differs_in_one_place(data: st.DataObject, value: float) -> None:
    n, vocab = data.draw(st.integers(1, 9)), data.draw(st.sampled_from([2, 7, 64, 1536]))
    logits = rows(n, vocab)
    flat, at = data.draw(st.integers(0, n - 1)), data.draw(st.integers(0, vocab - 1))
    logits[flat] = value
    assert check_logits(logits)[1] == {flat: "equal" if value else "zeros"}
    # The next number that float32 has: the least that two logits can differ by.
    logits[flat, at] = np.nextafter(np.float32(value), np.float32(0 if value else 1))
    assert check_logits(logits)[1] == {}


def test_rows_are_told_apart_and_negative_zero_is_zero() -> None:
    logits = rows(5)
    logits[0, 3], logits[1, 3], logits[2], logits[3] = np.nan, np.inf, -0.0, 7
    logits[2, 1] = 0.0
    assert check_logits(logits)[1] == {0: "nan", 1: "infinite", 2: "zeros", 3: "equal"}


def test_the_ends_of_float32_are_numbers() -> None:
    limit = np.finfo(np.float32).max
    assert check_logits(np.array([[limit, -limit]], np.float32)) == ([0], {})


def test_a_vocabulary_of_one_is_never_equal() -> None:
    assert check_logits(np.array([[2.0]], np.float32)) == ([0], {})


@given(hnp.arrays(np.float32, st.tuples(st.integers(1, 4), st.integers(1, 9)), elements=st.floats(width=32)))
def test_it_says_what_a_slow_look_says(logits: np.ndarray) -> None:
    wanted = {row: kind for row, values in enumerate(logits) if (kind := slow_look(values)) is not None}
    best, faults = check_logits(logits)
    assert faults == wanted
    for row, token in enumerate(best):
        assert row in faults or token == logits[row].tolist().index(max(logits[row].tolist()))


@given(
    hnp.arrays(
        np.float32,
        st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(2, 5)),
        elements=st.one_of(FINITE, st.sampled_from([np.nan, np.inf, -np.inf])),
    ),
    st.data(),
)
def test_several_tokens_a_row_and_padding_that_means_nothing(logits: np.ndarray, data: st.DataObject) -> None:
    n, each, _ = logits.shape
    used = np.array([data.draw(st.integers(1, each)) for _ in range(n)])
    best, faults = check_logits(logits, used)
    for row in range(n):
        kinds = [slow_look(logits[row, token]) for token in range(used[row])]
        assert faults.get(row) == next((kind for kind in kinds if kind is not None), None)
        for token, kind in enumerate(kinds):
            assert kind is not None or best[row * each + token] == int(logits[row, token].argmax())


def test_each_kind_has_words_and_a_symptom() -> None:
    assert set(SYMPTOMS) == set(WORDS) == set(FAULTS)
