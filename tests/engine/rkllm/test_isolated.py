"""The engine for librkllmrt.so in a process of its own, as it is served: a stand-in that aborts, and one that hangs."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from chipwise.engine import Batch
from chipwise.engine.isolated import IsolatedEngine, Isolation
from chipwise.engine.session import SavesSlots
from chipwise.errors import EngineLostError
from tests.engine.conftest import MakeBoard
from tests.engine.isolated.conftest import site, workers
from tests.engine.rkllm.conftest import WriteModel
from tests.engine.rkllm.oracle import logits

# Each starts processes of its own, which import the engine anew.
pytestmark = pytest.mark.slow


__all__ = ["site"]

FATAL = 13


def _step(tokens: list[int], past: int = 0) -> Batch:
    return Batch(0, np.array([tokens]), np.array([past]))


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("aborts", r"it aborted itself \(SIGABRT\); it said last: E rkllm: task submit failed"),
        ("hangs", "a step took longer than 1 s and counts as a hang"),
    ],
)
def test_a_runtime_that_aborts_or_hangs_is_replaced(
    fault: str, said: str, board: MakeBoard, write_model: WriteModel, library: Path, site: Path
) -> None:
    session = IsolatedEngine("rkllm_on_a_fake_board", Isolation(step_timeout_s=1.0)).open(
        {"rkllm": write_model(fault=fault)},
        n_slots=1,
        max_context=50,
        options={"root": str(board("rk3588")), "library": str(library)},
    )
    try:
        assert not isinstance(session, SavesSlots)
        assert session.step(_step([3, 1, 4])).logits[0].tolist() == logits([3, 1, 4]).tolist()
        assert session.step(_step([1], 3)).logits[0].tolist() == logits([3, 1, 4, 1]).tolist()
        with pytest.raises(EngineLostError, match=said):
            session.step(_step([FATAL], 4))
        session.renew()
        while session.state != "up":
            time.sleep(0.01)
        assert session.step(_step([3, 1])).logits[0].tolist() == logits([3, 1]).tolist()
    finally:
        session.close()
    assert workers() == []
