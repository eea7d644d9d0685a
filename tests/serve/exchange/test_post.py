from __future__ import annotations

import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

from chipwise.engine.null import NullSession
from chipwise.errors import UnavailableError
from chipwise.serve.exchange.make_service import make_service
from chipwise.serve.exchange.post import Post
from chipwise.serve.exchange.service import Service
from chipwise.serve.request.events import Event, Failure, Finish
from chipwise.serve.request.request import Request
from chipwise.serve.settings import ServeSettings
from chipwise.serve.text.sampling import SamplingParams
from tests.serve.fakes import null_model, says


def a_service(said: str = "x" * 50) -> Service:
    model = null_model(next_token=says(said))
    return make_service(model, ServeSettings(), when_broken=lambda: pytest.fail("it broke"))


def ask(service: Service, max_tokens: int = 10) -> list[Event]:
    events: list[Event] = []
    request = Request("r", np.array([97, 10]), max_tokens, SamplingParams(temperature=0.0), (), time.monotonic())
    service.loop.submit(request, events.append)
    return events


def wait(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.001)


def closed(service: Service) -> bool:
    session = service.model.session
    assert isinstance(session, NullSession)
    return session.closed


def test_a_former_holder_finishes_and_is_closed() -> None:
    """Driven by hand: nothing of it runs before it is told to."""
    first, second = a_service(), a_service()
    post = Post(first)
    events = ask(first)
    assert post.exchange(second)
    assert (post.current, post.leaving) == (second, (first,))
    wait(lambda: first.loop.draining)
    assert not closed(first)
    with pytest.raises(UnavailableError):
        ask(first)
    assert post.workload().waiting == 1
    while not (events and isinstance(events[-1], Finish)):
        first.loop.turn()
    first.loop.turn()
    wait(lambda: post.leaving == ())
    assert closed(first)
    assert not closed(second)
    assert post.stop(5)
    post.close()
    assert closed(second)


def test_its_counts_are_kept() -> None:
    first, second = a_service(), a_service()
    post = Post(first)
    post.start()
    for _ in range(2):
        events = ask(first)
        wait(lambda events=events: bool(events) and isinstance(events[-1], Finish))
    before = post.workload()
    assert post.exchange(second)
    wait(lambda: post.leaving == ())
    after = post.workload()
    assert (after.reused, after.parkings, after.slots) == (before.reused, before.parkings, 4)
    assert (after.running, after.waiting, after.kv_tokens) == (0, 0, 0)
    assert post.stop(5)


def test_it_is_idle_when_all_are_and_says_so_once() -> None:
    first, second = a_service(), a_service()
    post, idle = Post(first), list[int]()
    old, young = ask(first), ask(second)
    assert post.exchange(second)
    post.drain(lambda: idle.append(1))
    while not (young and isinstance(young[-1], Finish)):
        second.loop.turn()
    second.loop.turn()
    assert not idle, "the former one has a request left"
    wait(lambda: first.loop.draining)
    while not (old and isinstance(old[-1], Finish)):
        first.loop.turn()
    first.loop.turn()
    wait(lambda: bool(idle))
    assert not post.exchange(a_service()), "whoever ends takes no other"
    second.loop.turn()
    assert idle == [1]
    assert post.stop(5)


def test_an_abort_reaches_former_holders() -> None:
    first, second = a_service(), a_service()
    post = Post(first)
    old, young = ask(first), ask(second)
    assert post.exchange(second)
    post.abort(UnavailableError("it ends"))
    first.loop.turn()
    second.loop.turn()
    assert isinstance(old[-1], Failure)
    assert isinstance(young[-1], Failure)
    assert post.stop(5)


def test_the_end_does_not_wait_for_what_was_taken() -> None:
    first, entered, leave = a_service(), threading.Event(), threading.Event()
    post = Post(first)

    def read_slowly() -> None:
        with post.taken() as service:
            assert service is first
            entered.set()
            assert leave.wait(10)

    reader = threading.Thread(target=read_slowly)
    reader.start()
    assert entered.wait(10)
    assert post.exchange(a_service())
    time.sleep(0.02)
    assert post.leaving == (first,)
    assert not first.loop.draining
    assert post.stop(5)
    assert closed(first)
    leave.set()
    reader.join(5)


@pytest.mark.parametrize("missing", ["chipwise-session", "chipwise-dismissal"])
def test_where_no_thread_can_be_started_all_stays_as_it_was(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    first, second = a_service(), a_service()
    post, start, refused = Post(first), threading.Thread.start, []
    post.start()

    def no_more(thread: threading.Thread) -> None:
        if thread.name == missing:
            refused.append(thread)
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_more)
        with pytest.raises(RuntimeError, match="new thread"):
            post.exchange(second)
    assert refused
    assert (post.current, post.leaving, first.loop.draining) == (first, (), False)
    assert second.loop.stop(5), "it runs nothing"
    events = ask(first)
    wait(lambda: bool(events) and isinstance(events[-1], Finish))
    third = a_service()
    assert post.exchange(third)
    wait(lambda: post.leaving == ())
    assert closed(first)
    assert post.stop(5)


def test_one_that_cannot_keep_what_it_should_goes_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    first, second = a_service(), a_service()

    def farewell(service: Service) -> None:
        raise MemoryError(f"no memory for what {service.name} keeps")

    post, idle = Post(first, farewell=farewell), threading.Event()
    post.start()
    assert post.exchange(second)
    wait(lambda: post.leaving == ())
    assert closed(first)
    assert "not all that it held" in caplog.text
    post.drain(idle.set)
    assert idle.wait(5)
    assert post.stop(5)
    post.close()
    assert closed(second)


def test_one_that_hangs_holds_nobody_up_and_is_closed_once_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chipwise.serve.exchange.post._LAST_STEP_S", 0.02)
    monkeypatch.setattr("chipwise.serve.exchange.post._LOOK_S", 0.01)
    entered, leave, idle = threading.Event(), threading.Event(), list[int]()

    def hang(history: object) -> int:
        entered.set()
        assert leave.wait(10)
        return 120

    model, left = null_model(next_token=hang), list[Service]()
    first = make_service(model, ServeSettings(speculate=False), when_broken=lambda: pytest.fail("it broke"))
    post = Post(first, farewell=left.append)
    post.start()
    request = Request("r", np.array([97, 10]), 1, SamplingParams(temperature=0.0), (), time.monotonic())
    ticket = first.loop.submit(request, lambda event: None)
    assert entered.wait(10)
    first.loop.cancel(ticket)
    # Its loop never says that it is idle: it hangs.
    monkeypatch.setattr(first.loop, "drain", lambda when_idle: when_idle())
    assert post.exchange(a_service())
    post.drain(lambda: idle.append(1))
    wait(lambda: idle == [1])
    assert post.leaving == (first,), "it holds its memory"
    assert not closed(first)
    leave.set()
    wait(lambda: post.leaving == ())
    assert closed(first)
    assert left == [first]
    assert post.stop(5)
    post.close()
    assert left[1:] == [post.current]
