from __future__ import annotations

import queue
import threading

import numpy as np
import pytest

from chipwise.errors import EngineError, UnavailableError
from chipwise.serve.loop.loop import Loop
from chipwise.serve.loop.runner import Runner
from chipwise.serve.observe.metrics import Metrics
from chipwise.serve.request.events import Event, Failure, Finish
from chipwise.serve.request.request import Request
from chipwise.serve.schedule.scheduler import Scheduler
from chipwise.serve.text.sampling import SamplingParams
from chipwise.serve.text.vocabulary import Vocabulary
from tests.serve.fakes import null_model


class Bench:
    """A loop on a null model whose steps wait until the test lets them go."""

    def __init__(self, *, gated: bool = False) -> None:
        model = null_model(1, 10_000, next_token=lambda history: ord("x"))
        scheduler = Scheduler(n_slots=1, max_step_tokens=512)
        self.gate, self.stepping, self.broke = threading.Event(), threading.Event(), threading.Event()
        step = model.session.step

        def gated_step(batch):
            self.stepping.set()
            assert self.gate.wait(5)
            return step(batch)

        if gated:
            model.session.step = gated_step
        self.session = model.session
        self.runner = Runner(model, scheduler, Metrics(), Vocabulary(model.tokenizer), lambda: 0.0)
        self.loop = Loop(self.runner, self.broke.set)
        self.events: queue.Queue[Event] = queue.Queue()

    def ask(self, max_tokens: int = 3):
        request = Request("r", np.array([1]), max_tokens, SamplingParams(temperature=0), (), 0.0)
        return self.loop.submit(request, self.events.put)

    def end(self) -> Event:
        while True:
            event = self.events.get(timeout=5)
            if isinstance(event, (Finish, Failure)):
                return event


def test_requests_before_and_after_the_start_are_answered() -> None:
    bench = Bench()
    bench.ask()
    bench.loop.start()
    assert bench.end() == Finish("length", 1, 3)
    bench.ask(5)
    assert bench.end() == Finish("length", 1, 5)
    assert bench.loop.stop(5)
    with pytest.raises(UnavailableError, match="shutting down"):
        bench.ask()


def test_drain_calls_back_once_all_is_answered() -> None:
    bench, idle = Bench(gated=True), threading.Event()
    bench.loop.start()
    bench.ask()
    assert bench.stepping.wait(5)
    bench.loop.drain(idle.set)
    with pytest.raises(UnavailableError):
        bench.ask()
    assert not idle.is_set()
    bench.gate.set()
    assert idle.wait(5)
    assert bench.end() == Finish("length", 1, 3)
    assert bench.loop.stop(5)


def test_drain_of_an_idle_loop_calls_back() -> None:
    bench, idle = Bench(), threading.Event()
    bench.loop.start()
    bench.loop.drain(idle.set)
    assert idle.wait(5)
    assert bench.loop.stop(5)


def test_abort_answers_with_the_error() -> None:
    bench = Bench(gated=True)
    bench.loop.start()
    bench.ask(5000)
    assert bench.stepping.wait(5)
    error = UnavailableError("going")
    bench.loop.abort(error)
    bench.gate.set()
    assert bench.end() == Failure(error)
    assert bench.loop.stop(5)


def test_step_that_hangs_does_not_hold_the_stop() -> None:
    bench = Bench(gated=True)
    bench.loop.start()
    bench.ask()
    assert bench.stepping.wait(5)
    assert not bench.loop.stop(0.05)
    bench.gate.set()
    assert bench.loop.stop(5)


def test_stop_of_a_loop_that_never_started() -> None:
    assert Bench().loop.stop(1)


def test_cancel_wakes_the_loop() -> None:
    bench = Bench(gated=True)
    bench.loop.start()
    ticket = bench.ask(5000)
    assert bench.stepping.wait(5)
    bench.loop.cancel(ticket)
    bench.gate.set()
    bench.ask(1)
    assert bench.end() == Finish("length", 1, 1)
    assert bench.loop.stop(5)


def test_bug_is_told_to_all_and_to_the_server(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()

    def broken(batch):
        raise KeyError("a bug")

    bench.session.step = broken
    bench.ask()
    bench.ask()
    bench.loop.start()
    for _ in range(2):
        failure = bench.end()
        assert isinstance(failure, Failure)
        assert isinstance(failure.error, EngineError)
    assert bench.broke.wait(5)
    assert isinstance(bench.loop.broken, KeyError)
    assert not bench.loop.healthy
    with pytest.raises(UnavailableError, match="broken"):
        bench.ask()
    assert "a bug" in caplog.text
    assert bench.loop.stop(5)
