from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chipwise.engine import Batch
from chipwise.engine.batch_limits import BatchLimits
from chipwise.errors import EngineError

LIMITS = BatchLimits(n_slots=3, max_context=10, vocab_size=7, max_step_tokens=4)


def _batch(tokens: object, past: object, first_slot: int = 0) -> Batch:
    return Batch(first_slot, np.array(tokens), np.array(past))


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (_batch([1, 2], [0]), r"tokens \[2\] and past \[1\]"),
        (_batch([[1], [2]], [0]), r"tokens \[2, 1\] and past \[1\]"),
        (_batch([[1.0]], [0]), "float64"),
        (_batch([[1]], [0.5]), "float64"),
        (_batch([[1]], [0], 3), r"slots 3\.\.3 of 3"),
        (_batch([[1]], [0], -1), r"slots -1\.\.-1 of 3"),
        (_batch([[1], [1]], [0, 0], 2), r"slots 2\.\.3 of 3"),
        (_batch(np.zeros((0, 1), int), np.zeros(0, int)), r"slots 0\.\.-1"),
        (_batch(np.zeros((1, 0), int), [0]), "0 tokens a row, a step takes 1 to 4"),
        (_batch([[1, 1, 1, 1, 1]], [0]), "5 tokens a row"),
        (_batch([[1, 1]], [9]), "9 to 9 tokens and 2 more; a slot holds 10"),
        (_batch([[1], [1]], [-1, 2]), "-1 to 2 tokens"),
        (_batch([[7]], [0]), "token ids 7 to 7, the vocabulary has 7"),
        (_batch([[3, -1]], [0]), "token ids -1 to 3"),
    ],
)
def test_refused(batch: Batch, message: str) -> None:
    with pytest.raises(EngineError, match=message):
        LIMITS.check(batch)


@pytest.mark.parametrize("used", [[0, 2], [1, 3], [1]])
def test_rows_that_are_all_padding_or_longer_than_the_batch_are_refused(used: list[int]) -> None:
    batch = Batch(0, np.ones((2, 2), int), np.zeros(2, int), "all", np.array(used))
    with pytest.raises(EngineError, match="used"):
        LIMITS.check(batch)


@given(
    rows=st.integers(1, 3),
    count=st.integers(1, 4),
    past=st.integers(0, 6),
    token=st.integers(0, 6),
    dtype=st.sampled_from([np.int64, np.int32]),
)
def test_taken(rows: int, count: int, past: int, token: int, dtype: type) -> None:
    batch = Batch(3 - rows, np.full((rows, count), token, dtype), np.full(rows, past))
    LIMITS.check(batch)
