from __future__ import annotations

import errno
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from chipwise.engine.null import WallClock
from chipwise.errors import InputError
from chipwise.serve.hardware.board_option import BoardSettings, open_board
from chipwise.serve.hardware.hardware import Hardware
from chipwise.serve.hardware.hardware_metrics import HardwareCollector
from chipwise.serve.hardware.policy import Policy, PolicySettings
from chipwise.serve.hardware.rung import Variant, ladder
from chipwise.serve.request.priority import Priority
from chipwise.sim import Activity, FolderBoard, VirtualBoard, VirtualFiles, load_spec
from chipwise.telemetry import BoardMeters, Tree
from tests.serve.fakes import null_model, says
from tests.serve.live import live


def on_board(air_c: float, settings: PolicySettings | None = None) -> tuple[Hardware, VirtualBoard, VirtualFiles]:
    board = VirtualBoard(load_spec("orin-nano"), air_c)
    files = VirtualFiles(board)
    meters = BoardMeters(Tree(files, timeout_s=None))
    return Hardware("a board", meters, Policy(ladder(4), settings), clock=lambda: board.now_s), board, files


def text(hardware: Hardware) -> str:
    registry = CollectorRegistry()
    registry.register(HardwareCollector(hardware))
    return generate_latest(registry).decode()


def test_heat_limits_the_scheduler_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    hardware, board, _ = on_board(25.0)
    assert hardware.limits().max_batch is None
    with caplog.at_level(logging.WARNING):
        board.air_c = 80.0
        board.advance(3600, Activity(1.0))
        hardware.sample()
    assert hardware.limits().max_batch == 2
    assert hardware.limits().sheds(Priority.BACKGROUND)
    assert not hardware.limits().sheds(Priority.EMERGENCY)
    assert "goes from 'as asked' to 'emergencies only'" in caplog.text
    assert hardware.changes == 1


def test_who_follows_hears_which_variant_is_to_answer() -> None:
    board = VirtualBoard(load_spec("orin-nano"), 25.0)
    meters = BoardMeters(Tree(VirtualFiles(board), timeout_s=None))
    rungs = partial(ladder, 4, ())
    hardware = Hardware("a board", meters, Policy(rungs(())), rungs=rungs, clock=lambda: board.now_s)
    heard: list[str | None] = []
    hardware.offer([Variant("cool", "some")])
    hardware.follow(heard.append)
    assert heard == [None]
    board.air_c = 80.0
    board.advance(3600, Activity(1.0))
    hardware.sample()
    assert heard[-1] == "cool"
    hardware.offer([])
    assert heard[-1] is None
    assert hardware.decision is not None
    assert hardware.decision.rung.name == "emergencies only", "it is as hot as before"
    assert [rung.variant for rung in hardware.rungs] == [None] * 5


def test_metrics_have_units_and_no_sample_of_what_is_unknown() -> None:
    hardware, board, files = on_board(30.0)
    board.advance(100, Activity(0.5, 0.5))
    files.fail(files.path_of("gpu"), errno.EAGAIN)
    hardware.sample()
    lines = text(hardware).splitlines()
    assert f'chipwise_board_temperature_celsius{{zone=""}} {max(board.temps_c.values()):.3f}'.rstrip("0") in lines
    assert 'chipwise_board_gpu_load_ratio{core=""} 0.5' in lines
    assert "chipwise_board_passive_trip_celsius 85.0" in lines
    assert "chipwise_policy_level 0.0" in lines
    assert "chipwise_policy_changes_total 0.0" in lines
    assert f'chipwise_board_power_watts{{rail=""}} {round(board.power_w, 3)}' in lines
    assert not any("gpu-thermal" in line or "npu_load" in line for line in lines)


def test_a_stale_state_is_not_shown() -> None:
    hardware, board, _ = on_board(30.0)
    board.advance(11.0)
    assert "temperature_celsius" not in text(hardware)
    assert "chipwise_board_age_seconds 11.0" in text(hardware)


def test_a_folder_is_a_board(tmp_path: Path) -> None:
    FolderBoard(VirtualBoard(load_spec("rk3576"), 76.0), tmp_path)
    with open_board(BoardSettings(str(tmp_path), clock_floor=0.7), 4) as board:
        session, hardware = null_model().session, board.hardware
        assert board.wrap(session) is session
        assert hardware.decision is not None
        assert hardware.decision.level > 0
        ratio = hardware.decision.rung.clock_ratio
        assert ratio is not None
        capped = (tmp_path / "sys/class/devfreq/27700000.npu/max_freq").read_text()
        assert int(capped) == round(ratio * 1e9)
    assert (tmp_path / "sys/class/devfreq/27700000.npu/max_freq").read_text() == "1000000000\n"


def test_a_machine_without_a_thermometer_is_not_slowed_down(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    monkeypatch.setattr("chipwise.serve.hardware.board_option._THIS_MACHINE", tmp_path)
    with open_board(BoardSettings(), 4) as board:
        assert board.hardware.decision is None
        assert "tells no temperature" in board.hardware.why_no_policy
    with open_board(BoardSettings(str(tmp_path)), 4) as board:
        assert board.hardware.decision is not None


@pytest.mark.parametrize(
    ("board", "policy", "option"),
    [
        (None, PolicySettings(trip_c=60.0), "--trip"),
        (None, PolicySettings(peak_w=8.0), "--peak-watts"),
        ("sim:rk3576", PolicySettings(peak_w=8.0), "--peak-watts"),
        ("sim:rk3576", PolicySettings(trip_c=60.0), None),
        ("sim:orin-nano", PolicySettings(trip_c=60.0, peak_w=8.0), None),
    ],
)
def test_a_limit_that_nothing_could_hold_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, board: str | None, policy: PolicySettings, option: str | None
) -> None:
    (tmp_path / "proc").mkdir()
    monkeypatch.setattr("chipwise.serve.hardware.board_option._THIS_MACHINE", tmp_path)
    settings = BoardSettings(board, policy)
    if option is None:
        with open_board(settings, 4) as opened:
            assert opened.hardware.decision is not None
    else:
        with pytest.raises(InputError, match="tells no") as refused, open_board(settings, 4):
            pass
        assert refused.value.where == option


def test_a_board_that_is_hot_at_the_start_takes_the_variant_before_it_turns_work_away(
    caplog: pytest.LogCaptureFixture,
) -> None:
    variants = [Variant("cool", "some")]
    with open_board(BoardSettings("sim:rk3576", air_c=74.0), 2) as board:
        assert board.hardware.decision is not None
        assert board.hardware.decision.rung.name == "no background work"
    with open_board(BoardSettings("sim:rk3576", air_c=74.0), 2, variants) as board:
        decision = board.hardware.decision
        assert decision is not None
        assert decision.rung.name == "variant cool"
        board.hardware.offer(variants)
        assert board.hardware.decision is decision, "the same forms again are nothing new"
        board.hardware.offer([])
        assert board.hardware.decision.rung.name == "at most 1 at once"
    assert len(caplog.records) == 1


def test_no_such_board() -> None:
    with pytest.raises(InputError, match="no virtual board"), open_board(BoardSettings("sim:x"), 4):
        pass
    with pytest.raises(InputError, match="no such folder"), open_board(BoardSettings("/none"), 4):
        pass


@contextmanager
def rehearsal(air_c: float, **options) -> Iterator[tuple]:
    model = null_model(next_token=says("x" * 400), max_context=1024, clock=WallClock(), **options)
    with open_board(BoardSettings("sim:rk3576", air_c=air_c), 4) as board:
        served = replace(model, session=board.wrap(model.session))
        with live(served, hardware=board.hardware) as server:
            yield server, board.hardware


def test_serving_heats_a_virtual_board() -> None:
    with rehearsal(25.0, decode_s=0.02) as (server, hardware):
        body = {"prompt": "a\n", "max_tokens": 50}
        assert server.http.post("/v1/completions", json=body).status_code == 200
        end = time.monotonic() + 5
        while not (hardware.state.npu_load.value or 0) > 0.2:
            assert time.monotonic() < end, "the board has not felt the load"
            server.http.post("/v1/completions", json=body)
        metrics = server.http.get("/metrics").text
        assert 'chipwise_board_npu_load_ratio{core=""}' in metrics
        assert 'chipwise_board_temperature_celsius{zone="npu-thermal"}' in metrics


def test_hot_board_sheds_background_over_http() -> None:
    with rehearsal(84.0) as (server, hardware):
        assert hardware.limits().sheds(Priority.BACKGROUND)
        body = {"prompt": "a\n", "max_tokens": 2}
        answers = [
            server.http.post("/v1/completions", json=body, headers={"X-Priority": name}).status_code
            for name in ("background", "emergency")
        ]
        assert answers == [429, 200]
