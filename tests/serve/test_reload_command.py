"""`chipwise serve` in a process of its own exchanges its bundle: by a signal, by a request, beside an engine's own."""

from __future__ import annotations

import os
import pty
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from chipwise.bundle import EngineSpec, record_self_test
from chipwise.bundle.variants import add_variant
from chipwise.engine.null import NullOptions, NullSession
from chipwise.sim import Activity, FolderBoard, VirtualBoard, load_spec
from tests.engine.isolated.conftest import workers
from tests.engine.isolated.fake_site.misbehaving import next_token
from tests.serve.forms import said, write_form
from tests.serve.test_exchange import stream
from tests.serve.test_server import Command, command

# Each starts a process of its own.
pytestmark = pytest.mark.slow


def wait(condition: Callable[[], bool], timeout_s: float = 20.0) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def ask(url: str, **fields) -> dict:
    body = {"prompt": "hello\n", "max_tokens": 8, "temperature": 0, **fields}
    return httpx.post(f"{url}/v1/completions", json=body, timeout=30).json()


def test_hangup_takes_what_lies_at_the_path_now(tmp_path: Path) -> None:
    path = write_form(tmp_path / "bundle")
    with command(path, "--context", "256") as running:
        assert ask(running.url)["choices"][0]["text"] == said("hello\n", 8, 0)
        running.process.send_signal(signal.SIGHUP)
        time.sleep(0.3)
        write_form(path, 2)
        running.process.send_signal(signal.SIGHUP)
        wait(lambda: ask(running.url)["choices"][0]["text"] == said("hello\n", 8, 2))
        shutil.rmtree(path)
        running.process.send_signal(signal.SIGHUP)
        text = "chipwise_exchange_failures_total"
        wait(lambda: f'{text}{{reason="bundle"}} 1.0' in httpx.get(f"{running.url}/metrics").text)
        assert ask(running.url)["choices"][0]["text"] == said("hello\n", 8, 2)
        running.process.send_signal(signal.SIGTERM)
        code, _, err = running.end()
    assert code == 0
    assert "Traceback" not in err
    assert f"tiny stays in service: {path}: no such folder" in err
    assert err.count("answers new requests in place of") == 1, "the same bundle again is nothing new"


def test_a_terminal_that_is_closed_ends_the_server(tmp_path: Path) -> None:
    path = write_form(tmp_path / "bundle")
    ours, theirs = pty.openpty()
    args = [sys.executable, "-m", "chipwise.cli.main", "serve", str(path), "--port", "0", "--context", "256"]
    process = subprocess.Popen(
        args, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    os.close(theirs)
    try:
        running = Command(process)
        process.send_signal(signal.SIGHUP)
        time.sleep(0.3)
        assert ask(running.url)["model"] == "tiny", "the terminal is there: the signal has it look for another bundle"
        os.close(ours)
        process.send_signal(signal.SIGHUP)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.communicate()


def misbehaving(tmp_path: Path) -> tuple[Path, Path]:
    """Bundles whose engine runs in a process of its own and takes its time, one with a variant; all say the same."""
    session = NullSession(1, 64, NullOptions(vocab_size=260, next_token=next_token))
    fields = {"self_test": record_self_test(session, [3, 1, 4], max_tokens=3)}
    engines = [EngineSpec("misbehaving", {"step_s": 0.01, "number": number}) for number in range(3)]
    path, other, cool = (
        write_form(tmp_path / f"{number}", number, name=f"form{number}", engine=engine, **fields)
        for number, engine in enumerate(engines)
    )
    add_variant(path, cool, "cool")
    return path, other


def test_an_engine_in_a_process_of_its_own_is_exchanged_with_it(tmp_path: Path, site: Path) -> None:
    assert site
    path, other = misbehaving(tmp_path)
    with command(path, "--context", "256") as running, ThreadPoolExecutor(4) as pool:
        (first,) = workers(running.process.pid)
        begun = threading.Semaphore(0)
        streams = [pool.submit(stream, running.url, f"{i}\n", 150, begun) for i in range(3)]
        assert begun.acquire(timeout=20)
        done = httpx.post(f"{running.url}/v1/admin/reload", json={"bundle": str(other)}, timeout=60).json()
        assert (done["model"], done["changed"]) == ("form1", True)
        assert len(workers(running.process.pid)) == 2, "the old one finishes its streams"
        assert ask(running.url)["model"] == "form1"
        read = [one.result(60) for one in streams]
        assert [(len(text), models, end) for text, models, end in read] == [(150, {"form0"}, "length")] * 3
        wait(lambda: first not in workers(running.process.pid))
        assert len(workers(running.process.pid)) == 1
        metrics = httpx.get(f"{running.url}/metrics").text
        assert "chipwise_engine_up 1.0" in metrics
        running.process.send_signal(signal.SIGTERM)
        code, _, err = running.end()
        assert code == 0, err
        assert "Traceback" not in err


def test_heat_exchanges_an_engine_in_a_process_of_its_own(tmp_path: Path, site: Path) -> None:
    assert site
    path, _ = misbehaving(tmp_path)
    (tmp_path / "root").mkdir()
    board = VirtualBoard(load_spec("rk3576"), 30.0)
    files = FolderBoard(board, tmp_path / "root")
    with command(path, "--context", "256", "--board", str(tmp_path / "root")) as running:
        said = "variant cool, for when the board is too hot: KL 0.02 nats, 95.0% of next tokens, gate pass"
        assert said in running.said
        assert ask(running.url)["model"] == "form0"
        (first,) = workers(running.process.pid)
        board.air_c = 79.0
        files.advance(3600.0, Activity())
        wait(lambda: ask(running.url, priority="emergency")["model"] == "form0:cool")
        wait(lambda: first not in workers(running.process.pid))
        assert len(workers(running.process.pid)) == 1
        metrics = httpx.get(f"{running.url}/metrics").text
        assert 'chipwise_variant_active{variant="cool"} 1.0' in metrics
        running.process.send_signal(signal.SIGTERM)
        code, _, err = running.end()
    assert code == 0
    assert "form0:cool (KL 0.02 nats, 95.0% of next tokens, gate pass) answers new requests in place of form0" in err
