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
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import pytest

from chipwise.bundle import EngineSpec, record_self_test
from chipwise.bundle.variants import add_variant
from chipwise.engine.null import NullOptions, NullSession
from chipwise.sim import Activity, FolderBoard, VirtualBoard, load_spec
from tests.engine.isolated.conftest import workers
from tests.engine.isolated.fake_site.misbehaving import HANG, SEGFAULT, next_token
from tests.serve.exchange.test_exchange import stream
from tests.serve.forms import said, write_form
from tests.serve.shot_forms import vector, write_encoder, write_graph
from tests.serve.test_server import Command, command

# Each starts a process of its own.
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def nobody_ignores_hang_ups() -> Iterator[None]:
    """Where the tests run under nohup, commands would go on ignoring SIGHUP until they are ready."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


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


def infer(url: str, value: float, **fields) -> httpx.Response:
    x = {"name": "x", "shape": [1, 3], "datatype": "FP32", "data": [value] * 3}
    return httpx.post(f"{url}/v1/infer", json={"inputs": [x, *fields.pop("more", [])], **fields}, timeout=60)


def test_encoders_and_graphs_in_processes_of_their_own_are_exchanged_with_them(tmp_path: Path) -> None:
    """onnxruntime: SIGHUP has both folders read again, while they are asked without a pause."""
    texts, net = tmp_path / "texts", tmp_path / "net"
    write_encoder(texts, 0, onnxruntime=True)
    write_graph(net, 2.0, onnxruntime=True)
    stop = threading.Event()

    def client(number: int) -> list[tuple[int, float]]:
        said = []
        while not stop.is_set():
            answer = infer(running.url, float(number))
            said.append((answer.status_code, answer.json()["outputs"][0]["data"][0] / number))
        return said

    def embedded() -> list[float]:
        answer = httpx.post(f"{running.url}/v1/embeddings", json={"input": "hello", "model": "encoder"}, timeout=30)
        return answer.json()["data"][0]["embedding"]

    with command(texts, "--infer", str(net), "--isolate") as running, ThreadPoolExecutor(3) as pool:
        first = workers(running.process.pid)
        assert len(first) == 2
        assert np.allclose(embedded(), vector("hello", 0), atol=1e-5)
        clients = [pool.submit(client, number) for number in (1, 2, 3)]
        try:
            write_encoder(texts, 1, onnxruntime=True)
            write_graph(net, 5.0, onnxruntime=True)
            running.process.send_signal(signal.SIGHUP)
            wait(lambda: np.allclose(embedded(), vector("hello", 1), atol=1e-5))
            wait(lambda: infer(running.url, 1.0).json()["outputs"][0]["data"][0] == 5.0)
            wait(lambda: not set(first) & set(workers(running.process.pid)))
            assert len(workers(running.process.pid)) == 2
        finally:
            stop.set()
        answers = [answer for one in clients for answer in one.result(60)]
        assert {status for status, _ in answers} == {200}
        assert {scale for _, scale in answers} == {2.0, 5.0}
        health = httpx.get(f"{running.url}/health").json()
        assert (health["embeddings_engine"], health["infer_engine"]) == ("up", "up")
        running.process.send_signal(signal.SIGTERM)
        code, _, err = running.end()
    assert code == 0, err
    assert "Traceback" not in err
    assert err.count("answers new requests in place of") == 2


@pytest.mark.parametrize("wrong", [HANG, SEGFAULT])
def test_a_former_graph_that_hangs_or_crashes_is_gone_all_the_same(tmp_path: Path, site: Path, wrong: int) -> None:
    assert site
    path, other = (
        write_graph(tmp_path / name, name=name, engine=EngineSpec("misbehaving", {})) for name in ("one", "two")
    )
    n = [{"name": "n", "shape": [1], "datatype": "INT64", "data": [1]}]
    with command(path, "--engine-timeout", "3") as running, ThreadPoolExecutor(2) as pool:
        (first,) = workers(running.process.pid)
        assert infer(running.url, 1.0, more=n).json()["model_name"] == "one"
        bad = pool.submit(infer, running.url, float(wrong), more=n)
        time.sleep(0.3)
        done = httpx.post(f"{running.url}/v1/admin/reload", json={"bundle": str(other)}, timeout=60).json()
        assert (done["model"], done["changed"]) == ("two", True)
        assert infer(running.url, 1.0, more=n).json()["model_name"] == "two"
        assert bad.result(30).status_code == 500
        wait(lambda: "chipwise_leaving_models 0.0" in httpx.get(f"{running.url}/metrics").text)
        left = workers(running.process.pid)
        assert len(left) == 1
        assert first not in left
        running.process.send_signal(signal.SIGTERM)
        code, _, err = running.end()
    assert code == 0, err
    assert "Traceback" not in err


SLOW_START = """
import sys, time
from chipwise.cli.main import main
from chipwise.serve import server
opened = server.open_bundle
def slow(path):
    bundle = opened(path)
    print("opened", flush=True)
    sys.stdin.readline()
    return bundle
server.open_bundle = slow
sys.exit(main(sys.argv[1:]))
"""


def test_hangup_before_the_server_is_ready_is_followed_when_it_is(tmp_path: Path) -> None:
    path = write_form(tmp_path / "bundle")
    args = [sys.executable, "-c", SLOW_START, "serve", str(path), "--port", "0", "--context", "256"]
    process = subprocess.Popen(args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "opened\n"
        write_form(path, 2)
        process.send_signal(signal.SIGHUP)
        time.sleep(0.2)
        assert process.poll() is None
        process.stdin.write("\n")
        process.stdin.flush()
        running = Command(process)
        wait(lambda: ask(running.url)["choices"][0]["text"] == said("hello\n", 8, 2))
    finally:
        process.kill()
        process.communicate()
