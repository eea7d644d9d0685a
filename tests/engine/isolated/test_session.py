"""A session in another process: what it computes, and what becomes of it when that process is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from chipwise.background import in_background, may_raise
from chipwise.engine import Batch, Session
from chipwise.engine.isolated import IsolatedEngine, IsolatedSession, Isolation
from chipwise.engine.known_fault import explained
from chipwise.engine.null import NullOptions, NullSession
from chipwise.engine.restarts import Restarts
from chipwise.engine.session import PaddedPrefill, SavesSlots
from chipwise.errors import BundleError, EngineError, EngineLostError, InputError
from tests.engine.isolated.conftest import EAGER, OpenIsolated, workers
from tests.engine.isolated.fake_site.misbehaving import ABORT, HANG, SEGFAULT, VENDOR_ERROR, next_token

# Each starts processes of its own, which import the engine anew.
pytestmark = pytest.mark.slow


def batch(tokens: list[list[int]], past: int = 0, slot: int = 0, **fields) -> Batch:
    return Batch(slot, np.array(tokens), np.full(len(tokens), past), **fields)


def until_up(session: IsolatedSession) -> None:
    end = time.monotonic() + 60
    while session.state != "up":
        assert time.monotonic() < end, session.trouble
        time.sleep(0.01)


def test_it_does_what_the_session_in_it_does(open_isolated: OpenIsolated) -> None:
    session = open_isolated()
    inner = NullSession(4, 256, NullOptions(vocab_size=260, next_token=next_token))
    assert (session.n_slots, session.max_context, session.vocab_size, session.max_step_tokens) == (4, 256, 260, 512)
    assert isinstance(session, Restarts)
    assert isinstance(session, SavesSlots)
    assert session.whole_tokens == 1
    chance = np.random.default_rng(1)
    first, second = chance.integers(0, 250, (1, 90)), chance.integers(0, 250, (3, 1))
    for asked in (
        batch(first.tolist()),
        batch(first.tolist(), slot=1, logits="all"),
        batch(first.tolist(), slot=2),
        batch(second.tolist(), past=90),
        batch(second.tolist(), past=10, logits="all"),
    ):
        ours, theirs = session.step(asked).logits, inner.step(asked).logits
        assert ours.dtype == np.float32
        assert np.array_equal(ours, theirs)
    session.move_slot(1, 3, 11)
    assert session.save_slot(3, 11).tolist() == inner.held(1) == [*first[0][:10], second[1, 0]]
    logits = session.step(batch([[7]], past=11, slot=3)).logits
    before = logits.copy()
    session.load_slot(0, np.arange(200, dtype=np.float32))
    assert session.save_slot(0, 200).tolist() == list(range(200))
    # A runner takes KV out and puts it back before it has chosen from a step's logits.
    assert np.array_equal(logits, before)
    with pytest.raises(EngineError, match="holds 200 tokens, 201 were to be saved"):
        session.save_slot(0, 201)
    with pytest.raises(EngineError, match=r"slots 3\.\.4 of 4"):
        session.step(batch([[1], [1]], slot=3))
    with pytest.raises(EngineError, match="KeyError: 'not one of ours'"):
        session.step(batch([[VENDOR_ERROR]]))
    # None of these has cost it its process.
    assert (session.state, session.restarts, session.trouble) == ("up", 0, "")


def test_what_the_engine_does_not_have_the_session_has_not_either(open_isolated: OpenIsolated) -> None:
    session = open_isolated(plain=True)
    assert isinstance(session, PaddedPrefill)
    assert session.whole_tokens == 16
    assert not isinstance(session, SavesSlots)
    assert explained(session, "zeros") == " (zeros is known)"
    assert explained(session, "differs") == ""


def test_a_crash_costs_the_slots_and_nothing_else(open_isolated: OpenIsolated) -> None:
    session = open_isolated()
    session.step(batch([[1, 2, 3]]))
    with pytest.raises(EngineLostError, match=r"a segmentation fault \(SIGSEGV\)"):
        session.step(batch([[SEGFAULT]], past=3))
    until_up(session)
    # Until its owner knows that the slots are gone, nothing is done in them.
    with pytest.raises(EngineLostError, match="SIGSEGV"):
        session.step(batch([[4]], past=3))
    assert session.explain("zeros") is None
    loss = session.renew()
    assert loss is not None
    assert session.renew() is None
    with pytest.raises(EngineError, match="holds 0 tokens"):
        session.step(batch([[4]], past=3))
    with pytest.raises(EngineLostError) as caught:
        session.step(batch([[ABORT]]))
    assert str(caught.value) == (
        "the engine was lost: its process ended: it aborted itself (SIGABRT); "
        "it said last: E RKNN: assertion failed in the middle of nowhere"
    )
    session.renew()
    until_up(session)
    session.step(batch([[1]]))
    assert session.restarts == 2


def test_a_hang_is_ended(open_isolated: OpenIsolated) -> None:
    looks = []
    session = open_isolated(isolation=Isolation(step_timeout_s=1.0, backoff=EAGER))
    session.while_waiting(lambda: looks.append(time.monotonic()))
    started_s, pid = time.monotonic(), session.pid
    with pytest.raises(EngineLostError, match="a step took longer than 1 s and counts as a hang"):
        session.step(batch([[HANG]]))
    assert time.monotonic() - started_s > 1
    assert len(looks) > 3
    assert not psutil.pid_exists(pid)
    session.renew()
    until_up(session)
    # One that stands still, whatever the reason, is the same.
    os.kill(session.pid or workers()[0], signal.SIGSTOP)
    with pytest.raises(EngineLostError, match="counts as a hang"):
        session.step(batch([[1]]))


def test_one_that_ends_while_nobody_asks_is_replaced(open_isolated: OpenIsolated) -> None:
    session = open_isolated()
    session.step(batch([[1, 2]]))
    (pid,) = workers()
    os.kill(pid, signal.SIGKILL)
    end = time.monotonic() + 60
    while session.restarts == 0:
        assert time.monotonic() < end
        time.sleep(0.01)
    assert session.state == "up"
    with pytest.raises(EngineLostError, match=r"killed from outside \(SIGKILL\)"):
        session.move_slot(0, 1, 2)
    session.renew()
    session.step(batch([[1, 2]]))


@pytest.mark.skipif(not may_raise(), reason="this user may not raise priorities")
def test_the_first_start_may_be_work_that_nobody_waits_for_and_no_other(
    open_isolated: OpenIsolated, tmp_path: Path
) -> None:
    told, usual = tmp_path / "told", os.getpriority(os.PRIO_PROCESS, 0)
    with in_background():
        session = open_isolated(told=str(told))
    tasks = [int(entry.name) for entry in Path(f"/proc/{session.pid}/task").iterdir()]
    assert len(tasks) > 1
    assert {os.getpriority(os.PRIO_PROCESS, task) for task in tasks} == {usual}
    with pytest.raises(EngineLostError):
        session.step(batch([[SEGFAULT]]))
    session.renew()
    until_up(session)
    open_isolated(told=str(told))
    first, *others = map(int, told.read_text().split())
    assert first > usual
    assert others == [usual, usual]


def test_a_start_that_fails_is_tried_again(open_isolated: OpenIsolated, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    session = open_isolated(broken=str(broken))
    broken.touch()
    with pytest.raises(EngineLostError):
        session.step(batch([[SEGFAULT]]))
    session.renew()
    end = time.monotonic() + 60
    while session.state != "down":
        assert time.monotonic() < end
        time.sleep(0.01)
    assert session.trouble == "the engine cannot be started again: the device does not answer"
    with pytest.raises(EngineLostError, match="does not answer"):
        session.step(batch([[1]]))
    broken.unlink()
    until_up(session)
    session.step(batch([[1]]))


def test_each_process_is_proven_before_it_is_used(site: Path) -> None:
    proven: list[float] = []

    def prove(session: Session) -> None:
        proven.append(float(session.step(batch([[1, 2]])).logits.argmax()))
        if len(proven) in (2, 3):
            raise BundleError("the self-test failed")

    isolation = Isolation(backoff=EAGER)
    session = IsolatedEngine("misbehaving", isolation, prove).open({}, n_slots=1, max_context=8, options={})
    try:
        os.kill(session.pid or 0, signal.SIGKILL)
        end = time.monotonic() + 60
        while len(proven) < 4:
            assert time.monotonic() < end
            assert session.restarts == 0
            time.sleep(0.01)
        until_up(session)
        assert session.restarts == 1
    finally:
        session.close()
    # Two were started, found wanting, and thrown away.
    assert len(proven) == 4
    assert len(set(proven)) == 1
    assert workers() == []


def test_a_first_start_that_fails_says_why(site: Path, tmp_path: Path) -> None:
    with pytest.raises(EngineError) as caught:
        IsolatedEngine("misbehaving").open({}, n_slots=1, max_context=8, options={"broken": str(tmp_path)})
    assert str(caught.value) == "/dev/rknpu: the device does not answer; see dmesg"
    with pytest.raises(InputError, match="cannot be handed to a process of its own"):
        IsolatedEngine("null").open({}, n_slots=1, max_context=8, options={"next_token": len})

    def prove(session: object) -> None:
        raise ValueError("not what was built")

    with pytest.raises(EngineError, match=r"the engine's start failed \(ValueError: not what was built\)"):
        IsolatedEngine("null", prove=prove).open({}, n_slots=1, max_context=8, options={})
    assert workers() == []


@pytest.mark.parametrize("name", ["rknn", "rkllm"])
def test_engines_of_boards_say_what_they_say_in_this_process(name: str) -> None:
    with pytest.raises(InputError, match=f"the engine '{name}' runs on a Rockchip board"):
        IsolatedEngine(name).open({}, n_slots=1, max_context=32, options={})


PARENT = """
import numpy as np, time
from chipwise.engine.isolated import IsolatedEngine

session = IsolatedEngine("null").open({}, n_slots=1, max_context=8, options={})
print(session.pid, flush=True)
time.sleep(3600)
"""


def test_it_ends_with_the_process_that_asks_it_even_if_it_stands_still() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        worker = psutil.Process(int(parent.stdout.readline()))
        worker.suspend()
        parent.kill()
    worker.wait(20)
    assert not worker.is_running()
