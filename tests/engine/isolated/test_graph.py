"""A plain graph in another process: what it computes, and what becomes of it when that process is lost."""

from __future__ import annotations

import gc
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chipwise.background import in_background, may_raise
from chipwise.engine.graph_session import DescribesInputs, GraphSession, TensorSpec
from chipwise.engine.isolated import IsolatedGraph, Isolation, open_isolated_graph
from chipwise.errors import EngineDownError, EngineError, EngineLostError
from tests.engine.isolated.conftest import EAGER, shared, workers
from tests.engine.isolated.fake_site.misbehaving import HANG, SEGFAULT, VENDOR_ERROR
from tests.serve.fakes import null_graph
from tests.serve.live import live

# Each starts processes of its own, which import the engine anew.
pytestmark = pytest.mark.slow

N = np.array([5], np.int64)
OpenGraph = Callable[..., IsolatedGraph]


def feed(*values: float, rows: int = 1) -> dict[str, np.ndarray]:
    return {"x": np.tile(np.array(values, np.float32), (rows, 1)), "n": N}


def body(first: float) -> dict[str, Any]:
    """A request for a run that begins so."""
    return {
        "inputs": [
            {"name": "x", "shape": [1, 3], "datatype": "FP32", "data": [first, 2, 3]},
            {"name": "n", "shape": [1], "datatype": "INT64", "data": [5]},
        ]
    }


def wait(condition: Callable[[], bool]) -> None:
    """Wait until something holds that a new process brings."""
    end_s = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end_s, "it did not happen in time"
        time.sleep(0.01)


@pytest.fixture
def open_graph(site: Path) -> Iterator[OpenGraph]:
    opened: list[IsolatedGraph] = []
    before = shared()

    def make(
        *,
        timeout_s: float | None = None,
        prove: Callable[[GraphSession], None] = lambda session: None,
        engine: str = "misbehaving",
        **options: Any,
    ) -> IsolatedGraph:
        isolation = Isolation(step_timeout_s=timeout_s, backoff=EAGER)
        opened.append(open_isolated_graph(engine, Path("graph"), options=options, isolation=isolation, prove=prove))
        return opened[-1]

    yield make
    for session in opened:
        session.close()
    assert workers() == []
    gc.collect()
    assert shared() == before


def test_it_does_what_the_graph_in_it_does(open_graph: OpenGraph) -> None:
    session = open_graph()
    assert (session.input_names, session.output_names) == (("x", "n"), ("y", "count"))
    assert isinstance(session, DescribesInputs)
    assert session.inputs[0] == TensorSpec("x", (None, 3), np.dtype(np.float32))
    first = session.run(feed(1, 2, 3))
    for rows in (2, 1, 5000, 0):
        given = feed(4, 5, 6, rows=rows)
        found = session.run(given)
        assert found["y"].dtype == np.float32
        assert np.array_equal(found["y"], given["x"] * 2)
        assert found["count"].tolist() == [5 + 3 * rows]
    # What an earlier run gave is not written over.
    assert first["y"].tolist() == [[2, 4, 6]]


def test_one_that_does_not_describe_its_inputs_does_not_seem_to(open_graph: OpenGraph) -> None:
    session = open_graph(plain=True)
    assert not isinstance(session, DescribesInputs)
    assert session.run(feed(1, 2, 3))["y"].tolist() == [[2, 4, 6]]


def test_a_crash_fails_its_run_and_the_next_one_is_computed(open_graph: OpenGraph) -> None:
    session = open_graph()
    for restarts in (1, 2):
        with pytest.raises(EngineLostError, match="segmentation fault"):
            session.run(feed(SEGFAULT, 0, 0))
        assert session.run(feed(1, 2, 3))["y"].tolist() == [[2, 4, 6]]
        assert session.restarts == restarts


def test_a_loss_between_two_runs_fails_none(open_graph: OpenGraph) -> None:
    session = open_graph()
    (pid,) = workers()
    os.kill(pid, signal.SIGKILL)
    wait(lambda: session.restarts > 0)
    assert session.run(feed(1, 2, 3))["y"].tolist() == [[2, 4, 6]]


def test_a_hang_is_found(open_graph: OpenGraph) -> None:
    session = open_graph(timeout_s=1.0)
    with pytest.raises(EngineLostError, match="a run took longer than 1 s"):
        session.run(feed(HANG, 0, 0))
    assert session.run(feed(1, 2, 3))["y"].tolist() == [[2, 4, 6]]


def test_what_a_runtime_raises_comes_across_and_costs_no_process(open_graph: OpenGraph) -> None:
    session = open_graph()
    with pytest.raises(EngineError, match="KeyError: 'not one of ours'"):
        session.run(feed(VENDOR_ERROR, 0, 0))
    assert session.run(feed(1, 2, 3))["count"].tolist() == [8]
    assert session.restarts == 0


def test_each_process_proves_itself(open_graph: OpenGraph) -> None:
    proven: list[GraphSession] = []
    session = open_graph(prove=proven.append)
    with pytest.raises(EngineLostError):
        session.run(feed(SEGFAULT, 0, 0))
    session.run(feed(1, 2, 3))
    assert len(proven) == 2

    def refuse(session: GraphSession) -> None:
        raise EngineError("the self-test failed")

    with pytest.raises(EngineError, match="the self-test failed"):
        open_graph(prove=refuse)


@pytest.mark.skipif(not may_raise(), reason="this user may not raise priorities")
def test_the_first_start_may_be_work_that_nobody_waits_for(open_graph: OpenGraph, tmp_path: Path) -> None:
    told, usual = tmp_path / "told", os.getpriority(os.PRIO_PROCESS, 0)
    with in_background():
        graph = open_graph(told=str(told))
    (pid,) = workers()
    tasks = [int(entry.name) for entry in Path(f"/proc/{pid}/task").iterdir()]
    assert len(tasks) > 1
    assert {os.getpriority(os.PRIO_PROCESS, task) for task in tasks} == {usual}
    with pytest.raises(EngineLostError):
        graph.run(feed(SEGFAULT, 2, 3))
    assert graph.run(feed(1, 2, 3))["y"][0, 0] == 2
    first, second = map(int, told.read_text().split())
    assert first > usual == second


def test_an_engine_without_plain_graphs_says_so(open_graph: OpenGraph) -> None:
    with pytest.raises(EngineError, match="runs no plain graphs"):
        open_graph(engine="null")


def test_one_that_does_not_start_again_keeps_nobody_waiting_and_comes_back(
    open_graph: OpenGraph, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    session = open_graph(broken=str(broken))
    broken.touch()
    with pytest.raises(EngineLostError, match="segmentation fault"):
        session.run(feed(SEGFAULT, 0, 0))
    with pytest.raises(EngineDownError, match="cannot be started again: the device does not answer"):
        session.run(feed(1, 2, 3))
    assert (session.state, session.trouble) == (
        "down",
        "the engine cannot be started again: the device does not answer",
    )
    broken.unlink()
    wait(lambda: session.state == "up")
    assert session.run(feed(1, 2, 3))["y"].tolist() == [[2, 4, 6]]
    assert session.trouble == ""


def test_a_server_says_that_its_graph_is_down_until_it_is_up(open_graph: OpenGraph, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    session = open_graph(broken=str(broken))
    with live(None, graph=replace(null_graph(*session.inputs), session=session)) as server:
        assert server.http.get("/health").json() == {"status": "ok", "model": "null-graph", "infer_engine": "up"}
        broken.touch()
        assert server.http.post("/v1/infer", json=body(SEGFAULT), timeout=60).status_code == 500
        # One that came while it was expected back, and one that comes when it is not.
        waits = server.http.post("/v1/infer", json=body(1), timeout=60)
        refused = server.http.post("/v1/infer", json=body(1), timeout=60)
        for answer in (waits, refused):
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
            error = answer.json()["error"]
            assert (error["type"], error["code"]) == ("server_error", "unavailable")
            assert "the engine is down (the engine cannot be started again: the device" in error["message"]
        health = server.http.get("/health")
        assert (health.status_code, health.json()["status"]) == (503, "unhealthy")
        assert health.json()["infer_engine"] == "down"
        assert server.metric('chipwise_jobs_total{kind="infer",outcome="rejected"}') == 2
        broken.unlink()
        server.wait(lambda: server.http.get("/health").json()["infer_engine"] == "up", 60)
        assert server.http.get("/health").json()["status"] == "ok"
        assert server.http.post("/v1/infer", json=body(1), timeout=60).status_code == 200


def test_a_server_lives_on_and_says_what_happened(open_graph: OpenGraph) -> None:
    session = open_graph()
    graph = replace(null_graph(*session.inputs), session=session)

    with live(None, graph=graph) as server:
        lost = server.http.post("/v1/infer", json=body(SEGFAULT), timeout=60)
        assert lost.status_code == 500
        assert "segmentation fault" in lost.json()["error"]["message"]
        again = server.http.post("/v1/infer", json=body(1), timeout=60)
        assert again.json()["outputs"][0]["data"] == [2, 4, 6]
