from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chipwise.verify.certainty.holm import holm

P_VALUES = st.lists(st.floats(0, 1), max_size=12)


def test_a_worked_example() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []


@given(P_VALUES)
def test_between_none_and_bonferroni_in_the_same_order(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    assert all(p <= q for p, q in zip(p_values, adjusted, strict=True))
    pairs = sorted(zip(p_values, adjusted, strict=True))
    assert all(q <= r + 1e-15 for (_, q), (_, r) in pairwise(pairs))
    if p_values:
        assert min(adjusted) == pytest.approx(min(1.0, len(p_values) * min(p_values)))
