from __future__ import annotations

import numpy as np

from chipwise.engine import Batch
from chipwise.engine.isolated.step_limit import StepLimit


def batch(rows: int, new: int, past: int = 0) -> Batch:
    return Batch(0, np.zeros((rows, new), np.int64), np.full(rows, past))


def test_what_is_set_holds_for_every_step() -> None:
    limit = StepLimit(2.0)
    limit.learn(batch(1, 100), 60)
    assert limit.seconds(batch(1, 4000)) == limit.seconds(batch(4, 1, 100)) == limit.other_s == 2


def test_a_long_prompt_has_time_before_any_was_measured() -> None:
    assert StepLimit().seconds(batch(1, 1)) == 30
    assert StepLimit().seconds(batch(1, 4000)) == 10 * 0.5 * 4000


def test_ten_times_the_slowest_but_never_less_than_the_floor() -> None:
    limit = StepLimit()
    limit.learn(batch(1, 100), 1.0)
    limit.learn(batch(1, 100), 0.5)
    assert limit.seconds(batch(1, 1000)) == 10 * 0.01 * 1000
    # A runtime may feed all again for one more token.
    assert limit.seconds(batch(1, 1, past=999)) == 10 * 0.01 * 1000
    limit.learn(batch(2, 1), 20.0)
    assert limit.seconds(batch(2, 1)) == 200
    limit.learn(batch(2, 1), 0.1)
    assert limit.seconds(batch(2, 1)) == 200
    # Short chunks, and drafts, say nothing of prompts.
    limit.learn(batch(1, 3), 25.0)
    assert limit.seconds(batch(1, 1000)) == 250
    assert limit.other_s == 30
