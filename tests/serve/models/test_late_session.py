"""A fallback that is resident holds the memory it may need; one that is lazy takes what is written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from chipwise.engine import Batch, StepOutput
from chipwise.engine.onnxruntime.fused import FusedSession
from chipwise.errors import EngineError
from chipwise.serve.models.late_session import LateSession
from tests.model.decoder.random_models import write_folder
from tests.model.decoder.sessions import CONTEXT, fused_file

SLOTS = 4


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fused_file(write_folder("llama", tmp_path_factory.mktemp("llama")), tmp_path_factory.mktemp("graph"))


def late(graph: Path) -> LateSession:
    def create() -> FusedSession:
        return FusedSession(graph, n_slots=SLOTS, max_context=CONTEXT, threads=1)

    probe = create()
    vocab_size = probe.vocab_size
    probe.close()
    return LateSession(create, n_slots=SLOTS, max_context=CONTEXT, vocab_size=vocab_size)


def test_a_session_that_is_whole_answers_as_one_that_is_not(graph: Path) -> None:
    batch = Batch(3, np.array([[1, 2, 3]]), np.array([0]))
    said = []
    for whole in (True, False):
        session = late(graph)
        session.open(whole=whole)
        said.append(session.step(batch).logits.copy())
        session.close()
    assert np.array_equal(*said)


class _Noting:
    """A session that notes what it is asked, and fails if it shall."""

    n_slots, max_context, vocab_size, max_step_tokens = 3, 64, 8, 16

    def __init__(self, *, fails: bool = False) -> None:
        self.steps: list[tuple[tuple[int, ...], list[int]]] = []
        self.written: list[tuple[int, int]] = []
        self.closed = False
        self._fails = fails

    def step(self, batch: Batch) -> StepOutput:
        if self._fails:
            raise EngineError("no memory")
        self.steps.append((batch.tokens.shape, batch.past.tolist()))
        return StepOutput(np.zeros((batch.rows, self.vocab_size), np.float32))

    def move_slot(self, source: int, target: int, tokens: int) -> None:
        raise AssertionError("nothing is to be moved")

    def save_slot(self, slot: int, tokens: int) -> npt.NDArray[np.float32]:
        return np.zeros(tokens, np.float32)

    def load_slot(self, slot: int, kv: npt.NDArray[np.float32]) -> None:
        self.written.append((slot, len(kv)))

    def close(self) -> None:
        self.closed = True


def test_all_slots_are_written_and_the_longest_and_widest_step_run_if_all_memory_shall_be_there() -> None:
    lazy, whole = _Noting(), _Noting()
    LateSession(lambda: lazy, n_slots=3, max_context=64, vocab_size=8).open()
    LateSession(lambda: whole, n_slots=3, max_context=64, vocab_size=8).open(whole=True)
    assert lazy.steps == []
    assert lazy.written == []
    assert whole.written == [(0, 64), (1, 64), (2, 64)]
    assert whole.steps == [((1, 16), [0]), ((3, 1), [16, 16, 16])]


def test_an_engine_that_fails_then_is_closed_and_said() -> None:
    session = _Noting(fails=True)
    late_one = LateSession(lambda: session, n_slots=3, max_context=64, vocab_size=8)
    with pytest.raises(EngineError, match="no memory"):
        late_one.open(whole=True)
    assert session.closed
    assert not late_one.opened
