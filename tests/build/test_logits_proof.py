from __future__ import annotations

import numpy as np
import pytest

from chipwise.build.logits_proof import proven
from chipwise.errors import RewriteError

BEFORE = np.array([[1.0, -200.0], [3.0, 4.0]], np.float32)


def test_the_largest_difference_is_told() -> None:
    assert proven("fusion", BEFORE, BEFORE + np.float32(0.015625)) == 0.015625


@pytest.mark.parametrize("by", [0.03, np.nan])
def test_a_rewrite_that_moves_a_logit_is_refused(by: float) -> None:
    after = BEFORE.copy()
    after[1, 0] += by
    with pytest.raises(RewriteError, match=r"^fusion: the logits differ by (0\.03|nan) of 200"):
        proven("fusion", BEFORE, after)
