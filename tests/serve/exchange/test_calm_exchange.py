"""Emergencies while another model is opened, takes the post, and the one before it goes: nothing of that begins."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from chipwise.background import is_background
from chipwise.bundle import open_bundle
from chipwise.engine.session import Session
from chipwise.errors import UnavailableError
from chipwise.serve.assembly.make_exchange import chat_seat, make_exchange
from chipwise.serve.exchange import exchange as exchange_module
from chipwise.serve.models import open_model
from chipwise.serve.models.open_model import ModelOpener
from chipwise.serve.request.priority import Priority
from chipwise.serve.settings import ServeSettings
from chipwise.serve.turns.spare_time import SpareTime
from chipwise.serve.turns.turns import Turns
from tests.serve.exchange.test_exchange import stream
from tests.serve.forms import Exchanging, Slow, exchanging, said, with_variant, write_form


class Noting(Slow):
    """Notes how many emergencies were on their way as each model was opened."""

    def __init__(self, step_s: float) -> None:
        super().__init__(step_s)
        self.emergencies: list[int] = []
        self.turns = Turns()

    def wrap(self, session: Session) -> Session:
        self.emergencies.append(self.turns._emergencies)
        return super().wrap(session)


def emergency(server: Exchanging, pool: ThreadPoolExecutor, tokens: int = 60) -> Future[tuple[str, set[str], str]]:
    """One whose answer has begun."""
    begun = threading.Semaphore(0)
    running = pool.submit(stream, server.url, "help\n", tokens, begun, priority="emergency")
    assert begun.acquire(timeout=10)
    return running


def test_a_model_is_not_opened_while_an_emergency_is_answered(tmp_path: Path) -> None:
    slow = Noting(0.01)
    path, other = write_form(tmp_path / "a"), write_form(tmp_path / "b", 2)
    with exchanging(path, slow=slow) as server, ThreadPoolExecutor(2) as pool:
        slow.turns = server.post._turns
        running = emergency(server, pool)
        assert slow.turns._emergencies == 1
        server.exchange.order(other).result(20)
        assert slow.emergencies == [0, 0]
        assert running.result(10)[0] == said("help\n", 60, 0)
        assert server.text() == said("hello\n", 8, 2)


def test_other_requests_hold_up_nothing(tmp_path: Path) -> None:
    slow = Slow(0.01)
    path, other = write_form(tmp_path / "a"), write_form(tmp_path / "b", 2)
    with exchanging(path, slow=slow) as server, ThreadPoolExecutor(2) as pool:
        begun = threading.Semaphore(0)
        running = pool.submit(stream, server.url, "talk\n", 150, begun, priority="interactive")
        assert begun.acquire(timeout=10)
        server.exchange.order(other).result(20)
        assert not running.done(), "the test is too slow to tell"
        assert running.result(20)[0] == said("talk\n", 150, 0)


def test_emergencies_without_end_hold_it_up_so_long_and_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange_module, "SpareTime", lambda turns: SpareTime(turns, 0.05))
    slow = Noting(0.01)
    path, other = write_form(tmp_path / "a"), write_form(tmp_path / "b", 2)
    with exchanging(path, slow=slow) as server, ThreadPoolExecutor(2) as pool:
        slow.turns = server.post._turns
        running = emergency(server, pool, 200)
        server.exchange.order(other).result(20)
        assert slow.emergencies == [0, 1]
        assert running.result(20)[0] == said("help\n", 200, 0)


def test_a_server_that_ends_does_not_wait_for_a_calm_moment(tmp_path: Path) -> None:
    slow = Slow(0.01)
    path, other = write_form(tmp_path / "a"), write_form(tmp_path / "b", 2)
    with exchanging(path, slow=slow) as server, ThreadPoolExecutor(2) as pool:
        running = emergency(server, pool, 200)
        exchanged = server.exchange.order(other)
        server.wait(lambda: server.exchange._spare is not None)
        assert server.exchange.stop(10)
        assert not running.done(), "the test is too slow to tell"
        with pytest.raises(UnavailableError):
            exchanged.result(1)


def test_the_tests_of_a_model_take_turns_with_the_one_that_serves(tmp_path: Path) -> None:
    slow = Slow(0.005)
    path, other = write_form(tmp_path / "a"), write_form(tmp_path / "b", 2)
    with exchanging(path, slow=slow) as server, ThreadPoolExecutor(2) as pool:
        begun = threading.Semaphore(0)
        running = pool.submit(stream, server.url, "talk\n", 200, begun, priority="background")
        assert begun.acquire(timeout=10)
        before = slow.opened[0].steps
        server.exchange.order(other).result(10)
        assert slow.opened[1].steps > 3, "its proof is not free"
        assert slow.opened[0].steps > before, "the other goes on"
        assert not running.done(), "the test is too slow to tell"
        assert running.result(20)[0] == said("talk\n", 200, 0)
    assert slow.most_at_once == 1


def test_what_was_proven_of_a_form_is_proven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proven: list[object] = []

    def prove(session, turn) -> bool:
        proven.append(session)
        return len(proven) == 1

    monkeypatch.setattr(open_model, "reuses_exactly", prove)
    with exchanging(with_variant(tmp_path)) as server:
        found = [server.post.current.model.reuses_prefixes]
        for variant in ("cool", None, "cool", None):
            server.exchange.want(variant)
            server.wait(lambda variant=variant: server.exchange.active == variant)
            found.append(server.post.current.model.reuses_prefixes)
        assert found == [True, False, True, False, True], "each form's own"
        assert len(proven) == 2
        # Another form of the same name is not taken for it.
        assert server.exchange.order(write_form(tmp_path / "bundle", 2)).result(10).changed
        assert len(proven) == 3


def test_what_goes_stops_nobody_while_an_emergency_is_on_its_way(tmp_path: Path) -> None:
    slow = Slow()
    path, other = write_form(tmp_path / "a"), write_form(tmp_path / "b", 2)
    with exchanging(path, slow=slow) as server:
        turns = server.post._turns
        held = threading.Event()
        opened = ModelOpener.open

        def open_then_hold(self, *args, **kwargs):
            assert is_background()
            model = opened(self, *args, **kwargs)
            kwargs["spare"].end()
            turns.arrive(Priority.EMERGENCY)
            held.set()
            return model

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ModelOpener, "open", open_then_hold)
            server.exchange.order(other).result(10)
        assert held.is_set()
        service = server.post.leaving[0]
        server.wait(lambda: service.loop.draining)
        assert not slow.opened[0].closed
        turns.leave(Priority.EMERGENCY)
        server.wait(lambda: server.post.leaving == ())
        assert slow.opened[0].closed


def test_who_settles_things_by_hand_waits_for_no_emergency(tmp_path: Path) -> None:
    path = with_variant(tmp_path)
    opener = ModelOpener(4, 256)
    bundle = open_bundle(path)
    turns = Turns()
    seat = chat_seat(
        opener.open(bundle), bundle, opener, ServeSettings(), when_broken=lambda: pytest.fail("it broke"), turns=turns
    )
    post, exchange = seat.post, make_exchange([seat], seat.post.current.metrics, turns=turns)
    turns.arrive(Priority.EMERGENCY)
    exchange.want("cool")
    started_s = time.monotonic()
    exchange.settle()
    assert exchange.active == "cool"
    assert time.monotonic() - started_s < 10, "else it would be 20"
    turns.leave(Priority.EMERGENCY)
    assert post.stop(5)
    post.close()
