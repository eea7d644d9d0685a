from __future__ import annotations

import logging
import threading

import pytest

from chipwise.telemetry.board_meters import BoardMeters
from chipwise.telemetry.monitor import BoardMonitor
from chipwise.telemetry.state import HardwareState
from chipwise.telemetry.tree import Tree
from tests.telemetry.fakes import RK3588, MemoryFiles


def test_samples_in_a_thread_until_it_is_stopped() -> None:
    seen: list[HardwareState] = []
    enough = threading.Event()

    def on_state(state: HardwareState) -> None:
        seen.append(state)
        if len(seen) == 3:
            enough.set()

    monitor = BoardMonitor(BoardMeters(Tree(MemoryFiles(RK3588))), on_state, interval_s=0.005)
    assert monitor.state.temp_c.value == 51.6
    monitor.start()
    assert enough.wait(5)
    assert monitor.stop()
    assert monitor.state.temp_c.value == 51.6


def test_fault_of_a_listener_does_not_end_it(caplog: pytest.LogCaptureFixture) -> None:
    again = threading.Event()

    def on_state(state: HardwareState) -> None:
        if again.is_set():
            done.set()
        again.set()
        raise ZeroDivisionError

    done = threading.Event()
    monitor = BoardMonitor(BoardMeters(Tree(MemoryFiles(RK3588))), on_state, interval_s=0.005)
    with caplog.at_level(logging.ERROR):
        monitor.start()
        assert done.wait(5)
        assert monitor.stop()
    assert "it is tried again" in caplog.text


def test_sensors_that_come_late_are_found() -> None:
    files, now = MemoryFiles({"proc/meminfo": "x"}), [0.0]
    monitor = BoardMonitor(BoardMeters(Tree(files, timeout_s=None)), clock=lambda: now[0])
    assert monitor.state.temp_c.value is None
    files.files.update(RK3588)
    now[0] = 61.0
    assert monitor.sample().temp_c.value == 51.6
