from __future__ import annotations

import time

import numpy as np
import pytest

from chipwise.engine import Batch
from chipwise.engine.null import NullEngine, NullOptions, NullSession, VirtualClock, WallClock
from chipwise.errors import EngineError, InputError


def _session(n_slots: int = 3, max_context: int = 32, **options) -> NullSession:
    return NullSession(n_slots, max_context, NullOptions(vocab_size=61, **options))


def _feed(session: NullSession, slot: int, tokens: list[int], past: int = 0) -> int:
    batch = Batch(slot, np.array([tokens], dtype=np.int64), np.array([past], dtype=np.int64))
    return int(session.step(batch).logits[0].argmax())


def test_answer_depends_on_the_whole_history() -> None:
    session = _session()
    seen = {_feed(session, 0, [first, 5, 6, 7]) for first in range(40)}
    assert len(seen) > 20


def test_chunks_and_slots_do_not_matter() -> None:
    session = _session()
    whole = _feed(session, 0, [1, 2, 3, 4])
    _feed(session, 2, [1, 2])
    assert _feed(session, 2, [3, 4], past=2) == whole


def test_decode_extends_several_slots_side_by_side() -> None:
    session = _session()
    _feed(session, 1, [1, 2])
    _feed(session, 2, [7, 8, 9])
    batch = Batch(1, np.array([[3], [4]], dtype=np.int64), np.array([2, 3], dtype=np.int64))
    rows = session.step(batch).logits.argmax(axis=1).tolist()
    assert rows == [_feed(session, 0, [1, 2, 3]), _feed(session, 0, [7, 8, 9, 4])]
    assert session.held(1) == [1, 2, 3]


def test_past_cuts_what_lies_behind_it() -> None:
    session = _session()
    _feed(session, 0, [1, 2, 3, 4, 5])
    _feed(session, 0, [9], past=2)
    assert session.held(0) == [1, 2, 9]


def test_all_logits() -> None:
    session = _session()
    batch = Batch(0, np.array([[1, 2, 3]], dtype=np.int64), np.zeros(1, dtype=np.int64), logits="all")
    logits = session.step(batch).logits
    assert logits.shape == (1, 3, 61)
    assert logits[0, 1].argmax() == _feed(session, 1, [1, 2])
    assert logits[0, 2].argmax() == _feed(session, 1, [1, 2, 3])


def test_logits_fall_from_the_next_token_on() -> None:
    session = _session(next_token=lambda history: 60, slope=0.5)
    batch = Batch(0, np.array([[1]], dtype=np.int64), np.zeros(1, dtype=np.int64))
    row = session.step(batch).logits[0]
    assert row[[60, 0, 1]].tolist() == [0.0, -0.5, -1.0]


def test_next_token_is_told_the_history() -> None:
    session = _session(next_token=lambda history: sum(history) % 61)
    assert _feed(session, 0, [30, 29]) == 59


def test_move_slot_copies() -> None:
    session = _session()
    _feed(session, 2, [1, 2, 3])
    session.move_slot(2, 0, 2)
    assert session.held(0) == [1, 2]
    assert _feed(session, 0, [3], past=2) == _feed(session, 1, [1, 2, 3])
    _feed(session, 2, [9], past=3)
    assert session.held(0) == [1, 2, 3]
    with pytest.raises(EngineError, match="holds 3 tokens, 4 were to be moved"):
        session.move_slot(0, 1, 4)


@pytest.mark.parametrize(
    ("slot", "tokens", "past", "message"),
    [
        (3, [1], 0, "of 3"),
        (0, [], 0, "0 tokens a row"),
        (0, [1] * 9, 0, "at most 8 fit a step"),
        (0, [61], 0, "a token outside"),
        (0, [-1], 0, "a token outside"),
        (0, [1], 1, "holds 0 tokens, the batch says 1"),
        (0, [1], -1, "the batch says -1"),
        (1, [1] * 8, 30, "a slot holds 32"),
    ],
)
def test_broken_batches_are_refused(slot: int, tokens: list[int], past: int, message: str) -> None:
    session = _session(max_step_tokens=8)
    for start in range(0, 32, 8):
        _feed(session, 1, [2] * 8, past=start)
    with pytest.raises(EngineError, match=message):
        _feed(session, slot, tokens, past)


def test_steps_cost_virtual_time() -> None:
    clock = VirtualClock()
    session = _session(prefill_s=0.5, decode_s=2.0, clock=clock)
    _feed(session, 0, [1, 2, 3])
    assert clock() == 1.5
    _feed(session, 1, [1, 2])
    assert clock() == 2.5
    session.step(Batch(0, np.array([[4], [4]], dtype=np.int64), np.array([3, 2], dtype=np.int64)))
    assert clock() == 6.5


def test_wall_clock_sleeps() -> None:
    clock, start = WallClock(), time.monotonic()
    clock.advance(0.02)
    assert time.monotonic() - start >= 0.02
    assert clock() >= start


def test_chosen_steps_fail() -> None:
    session = _session(fail_steps=frozenset({1}))
    _feed(session, 0, [1])
    with pytest.raises(EngineError, match="step 1 fails as told"):
        _feed(session, 0, [1])
    _feed(session, 0, [1])


def test_closed_session_refuses() -> None:
    session = _session()
    session.close()
    with pytest.raises(EngineError, match="closed"):
        _feed(session, 0, [1])


def test_engine_takes_options_by_name() -> None:
    session = NullEngine().open({}, n_slots=2, max_context=9, options={"vocab_size": 7, "max_step_tokens": 3})
    assert (session.n_slots, session.max_context, session.vocab_size, session.max_step_tokens) == (2, 9, 7, 3)
    with pytest.raises(InputError, match="no option 'vocab'"):
        NullEngine().open({}, n_slots=1, max_context=9, options={"vocab": 7})
