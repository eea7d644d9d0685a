from __future__ import annotations

import math

import numpy as np
import pytest

from chipwise.rewrite.mask_range import MaskRange, measure
from tests.check.graphs import SELECTED, added, attention, graph
from tests.rewrite.helpers import attention_feed


@pytest.mark.parametrize("opset", [13, 17, 18])
@pytest.mark.parametrize("mask", [added("-1e9"), SELECTED])
def test_what_is_measured_is_what_numpy_sees(mask: str, opset: int) -> None:
    feed = attention_feed([1, 1, 1, 0, 1, 0])
    (found,) = measure(graph(attention(mask), opset), [feed])
    scores = np.einsum("bhqd,bhkd->bhqk", feed["q"], feed["k"])
    open_, blocked = scores[..., [0, 1, 2, 4]], scores[..., [3, 5]]
    top = open_.max(-1)
    assert found is not None
    assert found.top_min == pytest.approx(top.min(), rel=1e-5)
    assert found.excess_max == pytest.approx(max(0.0, (blocked.max(-1) - top).max()), rel=1e-4)
    assert found.spread == pytest.approx(scores.max() - open_.min(), rel=1e-5)
    assert (found.keys, found.dead_rows) == (6, 0)


def test_rows_in_which_all_is_masked_are_counted() -> None:
    feeds = [attention_feed([0] * 6), attention_feed([1, 1, 1, 1, 0, 0])]
    (found,) = measure(graph(attention(added("-1e9"))), feeds)
    assert found is not None
    assert found.dead_rows == 2 * 6
    assert measure(graph(attention(added("-1e9"))), feeds[:1]) == [None]


def test_an_unmasked_run_needs_the_margin_only() -> None:
    (found,) = measure(graph(attention(added("-1e9"))), [attention_feed([1] * 6)])
    assert found is not None
    assert found.excess_max == 0.0


def test_the_number_needed() -> None:
    found = MaskRange(top_min=-3.0, excess_max=2.0, spread=8.0, keys=100, dead_rows=0)
    margin = math.log(100 / 1e-6) + 2.0
    assert found.needed(additive=True) == pytest.approx(-2.0 - margin)
    assert found.needed(additive=False) == pytest.approx(-3.0 - margin)
    # All other keys masked, each as high above the best as was seen: together they weigh a millionth of it.
    assert 99 * math.exp(found.needed(additive=True) + found.excess_max) < 1e-6
