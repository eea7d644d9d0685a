from __future__ import annotations

import inspect

import numpy as np

from chipwise.engine.batch import Batch
from chipwise.engine.null import NullOptions, NullSession
from chipwise.engine.session import draft_limits, saves_slots, whole_tokens
from chipwise.serve.faults.scrub import scrub
from chipwise.serve.hardware.rehearsed_session import Rehearsal
from chipwise.sim import VirtualBoard, load_spec


class Padded(NullSession):
    whole_tokens = 16


def test_what_only_some_sessions_can_do_is_seen_through_the_board() -> None:
    session = Padded(2, 32, NullOptions(max_draft_tokens=4))
    wrapped = Rehearsal(VirtualBoard(load_spec("rk3588"), 25.0)).wrap(session)
    # Python 3.12's isinstance looks only so: it must not be what decides.
    assert inspect.getattr_static(wrapped, "save_slot", None) is None
    assert saves_slots(wrapped)
    assert whole_tokens(wrapped) == 16
    assert draft_limits(wrapped) == draft_limits(session)
    wrapped.step(Batch(1, np.array([[5, 6, 7]]), np.array([0])))
    assert wrapped.save_slot(1, 3).any()
    scrub(wrapped, 1, 3)
    assert not wrapped.save_slot(1, 3).any()
