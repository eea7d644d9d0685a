from __future__ import annotations

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chipwise.engine.restarts import EngineState
from chipwise.errors import EngineDownError, EngineError, OverloadedError, RequestError, UnavailableError
from chipwise.serve.pipeline.job import Done
from chipwise.serve.request.events import Failure
from tests.serve.pipeline.turnstile import TIMEOUT_S, Line, Turnstile


def test_stages_work_side_by_side_and_answers_come_in_order() -> None:
    prepare, run, post = (Turnstile(name) for name in ("prepare", "run", "post"))
    with Line(prepare, run, post) as line:
        for number in range(3):
            line.submit(number)
        assert prepare.entry() == [0]
        prepare.allow()
        assert (run.entry(), prepare.entry()) == ([0], [1])
        run.allow()
        prepare.allow()
        # All three stages hold a request at once.
        assert (post.entry(), run.entry(), prepare.entry()) == ([0], [1], [2])
        for one in (prepare, run, post):
            one.allow(3)
        assert [line.answers.next() for _ in range(3)] == [(n, Done([n, "prepare", "run", "post"])) for n in range(3)]
        assert line.pipeline.n_live == 0


def test_a_slow_stage_holds_the_others_back() -> None:
    """Two places between stages: one is filled while the other is read, and then the first stage has to wait."""
    fast, slow = Turnstile("fast"), Turnstile("slow")
    fast.allow(100)
    with Line(fast, slow, max_waiting=2) as line:
        line.submit(0)
        assert slow.entry() == [0]
        line.submit(1)
        # 0 is read in one place and 1 is full in the other: the fast stage has none to fill.
        assert [fast.entry(), fast.entry()] == [[0], [1]]
        line.submit(2)
        line.submit(3)
        with pytest.raises(OverloadedError, match="2 requests wait for test"):
            line.submit(4)
        assert fast.entered.empty()
        slow.allow()
        assert fast.entry() == [2]
        line.submit(5)
        slow.allow(10)
        assert [line.answers.next()[0] for _ in range(5)] == [0, 1, 2, 3, 5]


def test_what_it_has_to_do() -> None:
    only = Turnstile("only")
    with Line(only) as line:
        jobs = [line.submit(number) for number in range(3)]
        assert only.entry() == [0]
        assert (line.pipeline.workload().running, line.pipeline.workload().waiting) == (1, 2)
        line.pipeline.cancel(jobs[2])
        assert (line.pipeline.workload().running, line.pipeline.workload().waiting) == (1, 1)
        only.allow(3)
        assert [line.answers.next()[0] for _ in range(2)] == [0, 1]
        assert (line.pipeline.workload().running, line.pipeline.workload().waiting) == (0, 0)
        assert line.pipeline.broken is None


@pytest.mark.parametrize("kind", ["fails", "breaks"])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_an_error_in_a_stage_reaches_its_own_request_only(kind: str, at: int) -> None:
    turnstiles = [Turnstile(str(k), **({kind: [1]} if k == at else {})) for k in range(3)]
    with Line(*turnstiles) as line:
        for one in turnstiles:
            one.allow(100)
        for number in range(4):
            line.submit(number)
        answers = dict(line.answers.next() for _ in range(4))
        assert all(answers[number] == Done([number, "0", "1", "2"]) for number in (0, 2, 3))
        failure = answers[1]
        assert isinstance(failure, Failure)
        assert isinstance(failure.error, RequestError if kind == "fails" else EngineError)
        assert kind == "fails" or f"the stage {at} failed (ValueError: broken by [1])" in str(failure.error)
        assert line.pipeline.healthy


def test_a_batch_takes_what_is_there_and_one_that_breaks_it_breaks_alone() -> None:
    gate, batch = Turnstile("gate"), Turnstile("batch", batch=3, breaks=[2])
    with Line(gate, batch) as line:
        line.submit(0)
        gate.allow(100)
        assert batch.entry() == [0]
        for number in (1, 2, 3, 4):
            line.submit(number)
        assert [gate.entry() for _ in range(5)] == [[0], [1], [2], [3], [4]]
        batch.allow(100)
        taken = [batch.entry()]
        assert sorted(taken[0]) == taken[0] == [1, 2, 3][: len(taken[0])]
        answers = dict(line.answers.next() for _ in range(5))
        assert isinstance(answers.pop(2), Failure)
        assert answers == {number: Done([number, "gate", "batch"]) for number in (0, 1, 3, 4)}


def test_a_stage_that_keeps_failing_makes_it_unhealthy() -> None:
    stage = Turnstile("engine", breaks=range(3))
    with Line(stage) as line:
        stage.allow(10)
        for number in range(3):
            assert line.pipeline.healthy
            line.submit(number)
            line.answers.next()
        assert not line.pipeline.healthy
        line.submit(3)
        line.answers.next()
        assert line.pipeline.healthy


@pytest.mark.parametrize("where", ["waiting", "working", "between"])
def test_who_is_cancelled_hears_nothing_and_leaves_no_trace(where: str) -> None:
    first, second = Turnstile("first"), Turnstile("second")
    with Line(first, second, max_waiting=1) as line:
        ahead = line.submit(0)
        assert first.entry() == [0]
        if where == "between":
            first.allow()
            assert second.entry() == [0]
            ahead = line.submit(1)
            assert first.entry() == [1]
            first.allow()
            # 2 enters only once 1 lies between the stages.
            line.submit(2)
            assert first.entered.empty()
        elif where == "waiting":
            ahead = line.submit(1)
        line.pipeline.cancel(ahead)
        line.pipeline.cancel(ahead)
        if where != "between":
            line.submit(9)
        first.allow(10)
        second.allow(10)
        expected = {"waiting": [0, 9], "working": [9], "between": [0, 2]}[where]
        assert [line.answers.next()[0] for _ in expected] == expected
        assert line.answers.empty
        assert line.pipeline.n_live == 0


def test_draining_answers_who_is_on_the_way_and_refuses_the_next() -> None:
    stage, idle = Turnstile("stage"), threading.Event()
    with Line(stage) as line:
        line.submit(0)
        line.submit(1)
        assert stage.entry() == [0]
        line.pipeline.drain(idle.set)
        with pytest.raises(UnavailableError, match="shutting down"):
            line.submit(2)
        stage.allow()
        assert line.answers.next()[0] == 0
        assert not idle.is_set()
        stage.allow()
        assert line.answers.next()[0] == 1
        assert idle.wait(TIMEOUT_S)


def test_a_drain_with_nobody_on_the_way_is_over_at_once() -> None:
    idle = threading.Event()
    with Line(Turnstile("stage")) as line:
        line.pipeline.drain(idle.set)
        assert idle.is_set()


def test_an_abort_answers_everybody_at_once() -> None:
    first, second = Turnstile("first"), Turnstile("second")
    with Line(first, second) as line:
        first.allow(2)
        for number in range(4):
            line.submit(number)
        assert second.entry() == [0]
        error = UnavailableError("no more")
        line.pipeline.abort(error)
        assert [line.answers.next() for _ in range(4)] == [(number, Failure(error)) for number in range(4)]
        first.allow(10)
        second.allow(10)
        line.submit(5)
        assert line.answers.next()[0] == 5
        assert line.answers.empty


def test_stopping_ends_the_threads_and_answers_who_waits() -> None:
    stage = Turnstile("stage")
    line = Line(stage)
    line.pipeline.start()
    line.submit(0)
    line.submit(1)
    assert stage.entry() == [0]
    stopped: list[bool] = []
    thread = threading.Thread(target=lambda: stopped.append(line.pipeline.stop(TIMEOUT_S)))
    thread.start()
    answers = dict(line.answers.next() for _ in range(2))
    assert all(isinstance(answer, Failure) for answer in answers.values())
    stage.allow()
    thread.join(TIMEOUT_S)
    assert stopped == [True]
    with pytest.raises(UnavailableError):
        line.submit(2)


STEP = st.one_of(
    st.tuples(st.just("submit"), st.sampled_from(["ok", "ok", "ok", "fails", "breaks"])),
    st.tuples(st.just("cancel"), st.integers(0, 30)),
    st.tuples(st.just("allow"), st.integers(0, 2)),
)


@settings(max_examples=25, deadline=None)
@given(steps=st.lists(STEP, max_size=40), depth=st.integers(1, 3), batch=st.integers(1, 3), where=st.integers(0, 2))
def test_whatever_happens_each_gets_its_own_answer_once(
    steps: list[tuple[str, object]], depth: int, batch: int, where: int
) -> None:
    """Requests come, go, fail and are let through in any order: who stays is answered once, rightly and in order."""
    kinds = [kind for step, kind in steps if step == "submit"]
    fails = [n for n, kind in enumerate(kinds) if kind == "fails"]
    breaks = [n for n, kind in enumerate(kinds) if kind == "breaks"]
    turnstiles = [
        Turnstile(
            str(k), batch=batch if k == where else 1, **({"fails": fails, "breaks": breaks} if k == where else {})
        )
        for k in range(3)
    ]
    with Line(*turnstiles, max_waiting=4, depth=depth) as line:
        jobs, refused, cancelled, n = {}, set(), set(), 0
        for step, what in steps:
            if step == "submit":
                try:
                    jobs[n] = line.submit(n)
                except OverloadedError:
                    refused.add(n)
                n += 1
            elif step == "cancel" and what in jobs:
                line.pipeline.cancel(jobs[what])
                cancelled.add(what)
            elif step == "allow":
                turnstiles[what].allow()
            assert line.pipeline.n_live <= 4 + 3 * batch + 2 * depth * batch
        for one in turnstiles:
            one.allow(1000)
        idle = threading.Event()
        line.pipeline.drain(idle.set)
        assert idle.wait(TIMEOUT_S)
    answers = []
    while not line.answers.empty:
        answers.append(line.answers.next())
    numbers = [number for number, _ in answers]
    assert len(set(numbers)) == len(numbers)
    # One that was over before it was cancelled has its answer, too.
    assert set(jobs) - cancelled <= set(numbers) <= set(jobs)
    good = [number for number, outcome in answers if isinstance(outcome, Done)]
    assert good == sorted(good)
    for number, outcome in answers:
        if number in fails or number in breaks:
            assert isinstance(outcome, Failure)
            assert isinstance(outcome.error, RequestError if number in fails else EngineError)
        else:
            assert outcome == Done([number, "0", "1", "2"])


class Process:
    """An engine's process as a test says that it is."""

    restarts = 0

    def __init__(self) -> None:
        self.state: EngineState = "up"

    @property
    def trouble(self) -> str:
        return "" if self.state == "up" else "killed by nobody knows whom"


def test_nobody_waits_for_an_engine_that_is_down() -> None:
    run, process = Turnstile("run"), Process()
    run.allow(10)
    with Line(run, process=process) as line:
        process.state = "restarting"
        assert line.pipeline.healthy
        line.submit(0)
        assert line.answers.next() == (0, Done([0, "run"]))
        process.state = "down"
        assert not line.pipeline.healthy
        with pytest.raises(
            UnavailableError, match=r"the engine is down \(killed by nobody knows whom\); try again later"
        ):
            line.submit(1)
        process.state = "up"
        assert line.pipeline.healthy
        line.submit(2)
        assert line.answers.next()[0] == 2


def test_who_waited_for_an_engine_that_does_not_come_is_told_so_and_not_that_its_request_failed() -> None:
    class Lost(Turnstile):
        def _work(self, values, buffers):
            raise EngineDownError("killed by nobody knows whom")

    with Line(Lost("run")) as line:
        for number in range(4):
            line.submit(number)
            answered, outcome = line.answers.next()
            assert answered == number
            assert isinstance(outcome, Failure)
            assert isinstance(outcome.error, UnavailableError)
            assert "the engine is down (killed by nobody knows whom)" in str(outcome.error)
