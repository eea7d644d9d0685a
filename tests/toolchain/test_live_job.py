"""LiveJob: a job that goes on answering, and every way in which it stops doing so."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import numpy as np
import pytest

from chipwise.errors import ToolchainError
from chipwise.toolchain import Job, open_job
from chipwise.toolchain.environment import Environment
from chipwise.toolchain.job_process import JobProcess
from chipwise.toolchain.runners import JOB_MAIN
from tests.toolchain import fake

RUNNER = """
import os, sys, time
sys.path.insert(0, {runners!r})
from live import answer_calls

def live(request):
    open("made.bin", "wb").write(b"1")
    def function(arrays):
        if arrays[0].size == 1:
            raise ValueError("one number is not enough")
        if arrays[0].size == 2:
            print("E call: the NPU is gone", flush=True)
            os._exit(7)
        return [arrays[0] * 2, arrays[1].T]
    return {{"values": {{"answer": 42}}, "artifacts": ["made.bin"],
             "then": lambda: answer_calls(request["values"]["link"], function)}}

def dies(request):
    print("E build: no such chip", flush=True)
    raise ValueError("no such chip")

def hangs(request):
    time.sleep(60)

def aborts(request):
    os.abort()

ACTIONS = {{"live": live, "dies": dies, "hangs": hangs, "aborts": aborts}}
"""


@pytest.fixture
def ready(tmp_path: Path) -> Environment:
    return fake.environment(tmp_path)


@pytest.fixture
def runner(tmp_path: Path) -> Path:
    path = tmp_path / "runner.py"
    path.write_text(RUNNER.format(runners=str(JOB_MAIN.parent)), "utf-8")
    return path


def _job(action: str, runner: Path, timeout_s: float = 60.0) -> Job:
    return Job(action, artifacts=("made.bin",), runner=runner, timeout_s=timeout_s)


def test_answers_calls_after_its_result(ready: Environment, runner: Path) -> None:
    with open_job(ready, _job("live", runner)) as live:
        assert live.result.values == {"answer": 42}
        assert live.result.artifacts["made.bin"].read_bytes() == b"1"
        assert live.result.peak_bytes > 1 << 20
        for n in (3, 5):
            doubled, turned = live.call([np.arange(n, dtype=np.int64), np.ones((2, n), np.float32)])
            assert doubled.tolist() == [2 * i for i in range(n)]
            assert doubled.dtype == np.int64
            assert turned.shape == (n, 2)


def test_a_call_that_fails_leaves_the_job_alive(ready: Environment, runner: Path) -> None:
    with open_job(ready, _job("live", runner)) as live:
        with pytest.raises(ToolchainError, match="one number is not enough"):
            live.call([np.zeros(1), np.zeros((1, 1))])
        assert live.call([np.ones(3), np.zeros((1, 1))])[0].tolist() == [2, 2, 2]


def test_a_job_that_dies_in_a_call_is_our_error_with_its_log(ready: Environment, runner: Path) -> None:
    with (
        open_job(ready, _job("live", runner)) as live,
        pytest.raises(ToolchainError, match=r"ended while it was asked.*the NPU is gone"),
    ):
        live.call([np.zeros(2), np.zeros((1, 1))])


def test_a_job_that_fails_before_its_result_says_why(ready: Environment, runner: Path) -> None:
    with pytest.raises(ToolchainError, match="no such chip"), open_job(ready, _job("dies", runner)):
        pass


def test_a_job_that_hangs_is_stopped(ready: Environment, runner: Path) -> None:
    with pytest.raises(ToolchainError, match="stopped after 1 s"), open_job(ready, _job("hangs", runner, 1.0)):
        pass


def test_a_job_that_aborts_is_our_error(ready: Environment, runner: Path) -> None:
    with pytest.raises(ToolchainError, match="SIGABRT"), open_job(ready, _job("aborts", runner)):
        pass


@pytest.mark.parametrize("action", ["hangs", "live"])
def test_an_interrupt_ends_the_job_at_once(
    ready: Environment, runner: Path, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    stopped: list[int] = []
    monkeypatch.setattr(JobProcess, "stop", lambda self, pid: (stopped.append(pid), os.killpg(pid, signal.SIGKILL)))
    interrupted = threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGUSR1))
    previous = signal.signal(signal.SIGUSR1, _interrupt)
    try:
        interrupted.start()
        with pytest.raises(KeyboardInterrupt), open_job(ready, _job(action, runner)):
            threading.Event().wait(60)
    finally:
        interrupted.cancel()
        signal.signal(signal.SIGUSR1, previous)
    # It was not waited for: what ended it was the kill.
    assert len(stopped) == 1


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt
