"""A hot afternoon on a virtual RK3576, in virtual time: heat has a cooler variant answer, and the evening the first."""

from __future__ import annotations

import random
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from chipwise.bundle import open_bundle
from chipwise.engine.batch import Batch, StepOutput
from chipwise.engine.session import Session
from chipwise.errors import OverloadedError
from chipwise.serve.assembly.make_exchange import chat_seat, make_exchange
from chipwise.serve.hardware.hardware import Hardware
from chipwise.serve.hardware.policy import Policy
from chipwise.serve.hardware.rehearsed_session import load_of
from chipwise.serve.hardware.rung import ladder
from chipwise.serve.models.open_model import ModelOpener
from chipwise.serve.request.events import Event, Finish, Piece
from chipwise.serve.request.priority import Priority
from chipwise.serve.request.request import Request
from chipwise.serve.settings import ServeSettings
from chipwise.serve.text.sampling import SamplingParams
from chipwise.sim import Activity, VirtualBoard, VirtualFiles, load_spec
from chipwise.telemetry import BoardMeters, Tree
from tests.serve.forms import said, with_variant, write_form

PREFILL_S, DECODE_S = 0.004, 0.1
# The variant reads fewer bytes a step, and is done sooner.
COOL_FACTOR = 0.4
TOKENS = 16
TRIP_C = 85.0


class OnBoard:
    """A session whose steps take virtual time and heat the board."""

    def __init__(self, session: Session, board: VirtualBoard, factor: float) -> None:
        self._session, self._board, self._factor = session, board, factor

    def __getattr__(self, name: str):
        return getattr(self._session, name)

    def step(self, batch: Batch) -> StepOutput:
        cost_s = batch.new_tokens * PREFILL_S if batch.new_tokens > 1 else DECODE_S
        self._board.advance(cost_s * self._factor / self._board.clock_ratio, Activity(load_of(batch), 0.1))
        return self._session.step(batch)


class Afternoon:
    """A server on a virtual board, driven a step at a time."""

    def __init__(self, path: Path, air_c: float) -> None:
        self.board = VirtualBoard(load_spec("rk3576"), air_c)
        meters = BoardMeters(Tree(VirtualFiles(self.board), timeout_s=None))
        rungs = partial(ladder, 4, ())
        now = lambda: self.board.now_s  # noqa: E731
        self.hardware = Hardware("rk3576", meters, Policy(rungs(())), rungs=rungs, clock=now)
        bundle = open_bundle(path)

        def wrap(session: Session) -> Session:
            salt = getattr(session, "_options").salt  # noqa: B009
            return OnBoard(session, self.board, COOL_FACTOR if salt else 1.0)

        opener = ModelOpener(5, 256, wrap=wrap)
        seat = chat_seat(
            opener.open(bundle), bundle, opener, ServeSettings(parking_slots=1),
            when_broken=lambda: pytest.fail("it broke"), hardware=self.hardware, clock=now,
        )  # fmt: skip
        self.post = seat.post
        self.exchange = make_exchange([seat], self.post.current.metrics, hardware=self.hardware, clock=now)
        self.chance = random.Random(5)
        self.asked: list[tuple[Request, int, list[Event]]] = []
        self.refused: list[Priority] = []
        self.first_s: dict[str, float] = {}
        self.forms: list[tuple[float, str | None]] = [(0.0, None)]
        self._sampled_s = self._next_s = -1.0

    def ask(self, priority: Priority) -> None:
        prompt, service, events = f"{len(self.asked)} go\n", self.post.current, list[Event]()
        request = Request(
            prompt, np.array(list(prompt.encode()), np.int64), TOKENS, SamplingParams(temperature=0.0), (),
            self.board.now_s, priority=priority,
        )  # fmt: skip

        def hear(event: Event) -> None:
            events.append(event)
            self.first_s.setdefault(prompt, self.board.now_s)

        try:
            service.loop.submit(request, hear)
        except OverloadedError:
            self.refused.append(priority)
            return
        self.asked.append((request, int(service.model.variant == "cool"), events))

    def run(self, duration_s: float, every_s: float) -> None:
        """Requests come at random times; the policy looks each second."""
        end_s = self.board.now_s + duration_s
        while self.board.now_s < end_s:
            if self.board.now_s - self._sampled_s >= 1.0:
                self._sampled_s = self.board.now_s
                self.hardware.sample()
                self.exchange.settle()
                if self.exchange.active != self.forms[-1][1]:
                    self.forms.append((self.board.now_s, self.exchange.active))
            if self.board.now_s >= self._next_s:
                self.ask(Priority.EMERGENCY if self.chance.random() < 0.1 else Priority.NORMAL)
                self._next_s = self.board.now_s + self.chance.expovariate(1 / every_s)
            turns = [service.loop.turn() for service in (*self.post.leaving, self.post.current)]
            if not any(turns):
                self.board.advance(min(0.2, max(1e-3, self._next_s - self.board.now_s)))

    def settle(self) -> None:
        """Let all that run come to their end."""
        while not all(isinstance(events[-1], Finish) if events else False for _, _, events in self.asked):
            turns = [service.loop.turn() for service in (*self.post.leaving, self.post.current)]
            assert any(turns) or self.post.leaving, "nobody works on what is left"
        end_s = time.monotonic() + 10
        while self.post.leaving:
            for service in self.post.leaving:
                service.loop.turn()
            assert time.monotonic() < end_s


def text(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Piece))


def test_heat_leads_to_the_variant_and_the_evening_back(tmp_path: Path) -> None:
    day = Afternoon(with_variant(tmp_path), 25.0)
    day.run(120, every_s=1.2)
    assert day.forms == [(0.0, None)], "nothing happens while it is cool"
    assert [rung.name for rung in day.hardware.rungs] == [
        *("as asked", "at most 2 at once", "variant cool"),
        *("no background work", "no background and normal work", "emergencies only"),
    ]
    day.board.air_c = 68.0
    day.run(1100, every_s=1.2)
    hot = [form for _, form in day.forms]
    assert hot[:2] == [None, "cool"]
    assert day.exchange.active == "cool"
    day.board.air_c = 20.0
    day.run(600, every_s=1.2)
    day.settle()
    assert day.exchange.active is None
    assert day.forms[-1][1] is None
    assert len(day.forms) <= 5, "hysteresis keeps it from going back and forth"
    assert day.board.peak_c < TRIP_C
    metrics = day.post.current.metrics
    assert metrics.value("chipwise_exchanges_total", reason="variant") == len(day.forms) - 1
    # Nobody was lost, and each answer is one form's from its first token to its last.
    assert len(day.asked) > 1000
    for request, salt, events in day.asked:
        assert isinstance(events[-1], Finish)
        # Bytes that may begin a character are kept back at the end.
        assert text(events).rstrip("\ufffd") == said(request.id, TOKENS, salt).rstrip("\ufffd")
    assert {salt for _, salt, _ in day.asked} == {0, 1}
    # Emergencies were served on every rung, and waited for their prompt, and for a step of another one or two.
    assert Priority.EMERGENCY not in day.refused
    waits_s = [
        day.first_s[request.id] - request.arrived_s
        for request, _, _ in day.asked
        if request.priority is Priority.EMERGENCY
    ]
    assert max(waits_s) < 4 * DECODE_S


def test_a_variant_that_does_not_fit_costs_requests_but_not_the_board(tmp_path: Path) -> None:
    path = with_variant(tmp_path, config={"n_layers": 64, "n_kv_heads": 64, "head_dim": 512})
    day = Afternoon(path, 58.0)
    day.run(1500, every_s=1.2)
    assert day.exchange.active is None
    assert "tiny:cool needs" in day.exchange.trouble
    failures = day.post.current.metrics.value("chipwise_exchange_failures_total", reason="variant")
    assert 1 <= failures <= 1500 / 60 + 1, "it is tried again a minute later, not each second"
    assert day.refused
    assert day.board.peak_c < TRIP_C


def test_another_bundle_changes_the_ladder(tmp_path: Path) -> None:
    day = Afternoon(with_variant(tmp_path), 60.0)
    day.run(600, every_s=1.2)
    assert day.exchange.active == "cool"
    plain = day.exchange.order(write_form(tmp_path / "plain", 2))
    day.exchange.settle()
    assert plain.result(1).changed
    assert "variant cool" not in [rung.name for rung in day.hardware.rungs]
    day.run(30, every_s=1.2)
    assert day.exchange.active is None
    assert day.hardware.decision is not None
    assert day.hardware.decision.level > 0, "it is still as hot"
