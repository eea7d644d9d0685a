from __future__ import annotations

import numpy as np
import pytest

from chipwise.engine.batch import Batch, StepOutput
from chipwise.engine.null import NullOptions, NullSession
from chipwise.serve.models.prefix_proof import reuses_exactly


def null(n_slots: int = 2, max_context: int = 64, **options) -> NullSession:
    return NullSession(n_slots, max_context, NullOptions(**options))


@pytest.mark.parametrize("n_slots", [1, 2, 5])
def test_an_engine_that_goes_by_its_tokens_passes(n_slots: int) -> None:
    assert reuses_exactly(null(n_slots))
    assert reuses_exactly(null(n_slots, max_step_tokens=5))


def test_a_context_too_short_for_the_proof_proves_nothing() -> None:
    assert not reuses_exactly(null(max_context=16))


def test_an_engine_whose_sums_depend_on_the_rows_does_not_pass() -> None:
    class Rounding(NullSession):
        def step(self, batch: Batch) -> StepOutput:
            output = super().step(batch)
            return StepOutput(output.logits + np.float32(batch.new_tokens / 1000))

    session = Rounding(2, 64, NullOptions(slope=0.3))
    assert not reuses_exactly(session)


def test_an_engine_that_sums_otherwise_from_64_tokens_on_does_not_pass() -> None:
    class Blocked(NullSession):
        def step(self, batch: Batch) -> StepOutput:
            output = super().step(batch)
            return StepOutput(
                output.logits + np.float32(0.001 * (int(batch.past[0]) + batch.new_tokens > 64)) * batch.new_tokens
            )

    assert not reuses_exactly(Blocked(2, 256, NullOptions(slope=0.3)))
    # In a context of 64 tokens that never happens.
    assert reuses_exactly(Blocked(2, 64, NullOptions(slope=0.3)))


def test_an_engine_that_does_not_copy_does_not_pass() -> None:
    session = null()
    session.step(Batch(1, np.arange(60)[None], np.array([0])))
    session.move_slot = lambda source, target, tokens: None  # type: ignore[method-assign]
    assert not reuses_exactly(session)
